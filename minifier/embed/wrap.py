"""`minifier.wrap`: a backend that, when it fails, has a repro made before the failure goes on."""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from minifier.capturing import script
from minifier.embed.notes import add_note
from minifier.embed.reducing import LOG, ended, start_reducing
from minifier.embed.session import Session, backend_given, free_folder, keep
from minifier.torch_private import asked_backend, compiler_for
from minifier.workflow.run_folder import RESULTS, next_place


class Wrapped:
    """A backend for torch.compile: the one that it was made of, observed. `repro` is the path of the script, once there
    is one."""

    def __init__(self, backend: Any, name: str, out: Path, options: Sequence[str], wait: bool) -> None:
        self.backend, self.__name__ = backend, name
        self.repro: Path | None = None
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
        if backend_given(compiler_fn) is not self or self._done:
            return None
        asked = asked_backend(compiler_fn)
        return compiler_for(self.backend, asked.mode, asked.options, asked.dynamic)

    def failed(self, number: int, error: BaseException) -> None:
        """Has the Case reduced, once; the error goes on with a note of what came of it."""
        if self._done:
            return
        self._done = True
        rank = os.environ.get("RANK")
        out = free_folder(self._out if rank is None else self._out / f"rank-{rank}")
        if keep(self._session, number, out) is None:
            add_note(error, "minifier: the failing graph could not be saved; `minify run` may do more")
        elif rank is not None and not _is_first(self._out):
            add_note(error, f"minifier: another rank failed first; this one's Case is in {out}")
        else:
            add_note(error, self._reduced(out))

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
    """Whether no other rank of the same run of torchrun has failed before."""
    marker = out / f".first-{os.environ.get('TORCHELASTIC_RUN_ID', 'none')}-{os.environ.get('MASTER_PORT', '')}"
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return False
    return True


def _next(name: str) -> Path:
    """A folder that is not there yet; under torchrun one that all ranks of a run take for the next."""
    run = os.environ.get("TORCHELASTIC_RUN_ID") if "RANK" in os.environ else None
    if run is not None:
        return RESULTS / f"{name}-run-{run}"
    return next_place(name)


def wrap(
    backend: Any = "inductor", *, out: Path | str | None = None, options: Sequence[str] = (), wait: bool = True
) -> Any:
    """A backend to be given to torch.compile in the place of `backend` (a name, or whatever torch.compile takes).

    It compiles as that does. When it fails, while compiling, in a call of what it compiled, or in the backward pass of
    that, the failing call is handed to another process that makes a repro of it in `out` (by default
    `minify-out/<backend>-<n>`; with a number behind it, if there is something in that), and the exception goes on with
    a note where that is. With `wait` off, the process is not waited for. `options` are those of `minify reduce`. Only
    the first failure is reduced; of several ranks under torchrun the first that fails, each having a folder of its own
    in `out`. Under `minify run` the backend is given back as it is.
    """
    if script.under_run:
        return backend
    if isinstance(backend, str):
        compiler_for(backend, None, None, None)  # torch's own error for a name that nobody has registered
    name = backend if isinstance(backend, str) else getattr(backend, "__name__", type(backend).__name__)
    place = _next(name).absolute() if out is None else Path(out).absolute()
    return Wrapped(backend, name, place, options, wait)
