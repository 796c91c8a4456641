"""`minifier.wrap`: a backend that, when it fails, has a repro made before the failure goes on."""

from __future__ import annotations

import itertools
import os
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from minifier.inplace.notes import add_note
from minifier.inplace.reducing import LOG, ended, start_reducing
from minifier.inplace.session import Session, keep, new_folder, unwrapped
from minifier.torch_private import asked_backend, compiler_for

_FIRST = ".first"  # made by the rank whose failure is reduced


class Wrapped:
    """A backend for torch.compile: the one that it was made of, observed. `repro` is the path of the script, once there
    is one."""

    def __init__(self, backend: Any, out: Path | None, options: Sequence[str], wait: bool) -> None:
        self.backend = backend
        self.repro: Path | None = None
        self.__name__ = backend if isinstance(backend, str) else getattr(backend, "__name__", type(backend).__name__)
        self._out, self._options, self._wait = out, tuple(options), wait
        self._done = False
        me = weakref.ref(self)  # the list of sessions is not to keep it alive
        self._session = Session(self.__name__, lambda fn: _observed(me(), fn), lambda n, error: _failed(me(), n, error))
        self._end = weakref.finalize(self, self._session.end)

    def __call__(self, gm: Any, inputs: Sequence[Any], **given: Any) -> Any:
        """What torch.compile calls with a graph."""
        return compiler_for(self.backend, given.get("mode"), given.get("options"), None)(gm, inputs)

    def observed(self, compiler_fn: Any) -> Any:
        """For a call of this backend, the compiler function without it; None for another's."""
        if unwrapped(compiler_fn) is not self or self._done:
            return None
        asked = asked_backend(compiler_fn)
        return compiler_for(self.backend, asked.mode, asked.options, asked.dynamic)

    def failed(self, number: int, error: BaseException) -> None:
        """Has the Case reduced, once; the error goes on with a note of what came of it."""
        if self._done:
            return
        self._done = True
        out = self._folder()
        try:
            case = keep(self._session, number, out)
        except Exception as fault:  # noqa: BLE001 - the user's own error is what has to be raised
            add_note(error, f"minifier: the failing graph could not be kept: {type(fault).__name__}: {fault}")
            return
        if case is None:
            add_note(error, "minifier: the failing graph could not be written down; `minify run` may do more")
        elif not _is_first(out):
            add_note(error, f"minifier: another rank failed first; this one's Case is in {out}")
        else:
            add_note(error, self._reduced(out))

    def _folder(self) -> Path:
        base = self._out if self._out is not None else _next(Path("minify-out"), self.__name__)
        rank = os.environ.get("RANK")
        return new_folder(base / f"rank-{rank}" if rank is not None else base)

    def _reduced(self, out: Path) -> str:
        process = start_reducing(out, self._options)
        if not self._wait:
            return f"minifier: the repro will be {out / 'repro.py'} ({out / LOG} says how far it is)"
        self.repro = ended(process, out)
        if self.repro is None:
            return f"minifier: no repro shows this failure; {out / LOG} says why"
        return f"minifier: the repro is {self.repro}"


def _observed(wrapped: Wrapped | None, compiler_fn: Any) -> Any:
    return None if wrapped is None else wrapped.observed(compiler_fn)


def _failed(wrapped: Wrapped | None, number: int, error: BaseException) -> None:
    if wrapped is not None:
        wrapped.failed(number, error)


def _is_first(out: Path) -> bool:
    """Whether no other rank of the same run has failed before; without ranks there is no other."""
    if not out.name.startswith("rank-"):
        return True
    try:
        os.close(os.open(out.parent / _FIRST, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return False
    return True


def _next(folder: Path, name: str) -> Path:
    return next(place for n in itertools.count(1) if not (place := folder / f"{name}-{n}").exists())


def wrap(
    backend: Any = "inductor", *, out: Path | str | None = None, options: Sequence[str] = (), wait: bool = True
) -> Wrapped:
    """A backend to be given to torch.compile in the place of `backend` (a name, or whatever torch.compile takes).

    It compiles as that does. When it fails, while compiling, in a call of what it compiled, or in the backward pass of
    that, the failing call is handed to another process that makes a repro of it in `out` (by default
    `minify-out/<backend>-<n>`), and the exception goes on with a note where that is. With `wait` off, the process is
    not waited for. `options` are those of `minify reduce`. Only the first failure is reduced; of several ranks under
    torchrun the first that fails, each having a folder of its own in `out`.
    """
    return Wrapped(backend, None if out is None else Path(out), options, wait)
