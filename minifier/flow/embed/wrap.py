"""`minifier.wrap`: a backend whose first failure gets a repro before the exception goes on."""

from __future__ import annotations

import contextlib
import os
import socket
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from minifier.capturing import script
from minifier.data.case.run_folder import RESULTS, next_place
from minifier.flow.embed.reducing import LOG, StatusLine, start_reducing, wait_for_repro
from minifier.flow.embed.session import Session, free_folder, keep_or_tell, name_of, tell
from minifier.torch_side.torch_private.dynamo import asked_backend, compiler_for


class Wrapped:
    """A backend for torch.compile that observes another backend. `repro` is the repro's path, None at first."""

    def __init__(self, backend: Any, name: str, out: Path, options: Sequence[str], wait: bool, compare: bool) -> None:
        self.backend, self.__name__ = backend, name
        self.repro: Path | None = None
        self._out, self._options, self._wait = out, tuple(options), wait
        self._has_failed = False
        me = weakref.ref(self)  # the list of sessions must not keep it alive
        self._session = Session(
            name, lambda n, error: _failed(me(), n, error), lambda fn: _observed(me(), fn), compare=compare
        )
        self._end = weakref.finalize(self, self._session.end)

    def __call__(self, gm: Any, inputs: Sequence[Any], **keywords: Any) -> Any:
        """Compile a graph for torch.compile."""
        return compiler_for(self.backend, keywords.get("mode"), keywords.get("options"), None)(gm, inputs)

    def observed(self, compiler_fn: Any) -> Any:
        """Return the wrapped backend's compiler function, or None if the call is another backend's."""
        asked = asked_backend(compiler_fn)
        if asked.function is not self or self._has_failed:
            return None
        return compiler_for(self.backend, asked.mode, asked.options, asked.dynamic)

    def failed(self, number: int, error: BaseException | None) -> None:
        """Reduce the Case of the first failure, and note the result on the error, or warn for a wrong result."""
        if self._has_failed:
            return
        self._has_failed = True
        rank = os.environ.get("RANK")
        out = free_folder(self._out if rank is None else self._out / f"rank-{rank}")
        seen = keep_or_tell(self._session, number, error, out)
        if not seen:
            return
        if rank is not None and not _is_first(self._out):
            tell(error, f"{seen} another rank failed first; this one's Case is in {out}")
        else:
            tell(error, f"{seen} {self._reduce(out)}")

    def _reduce(self, out: Path) -> str:
        process = start_reducing(out, self._options)
        if not self._wait:
            return f"the repro will be {out / 'repro.py'} ({out / LOG} says how far it is)"
        with StatusLine(f"minify: reducing the failure of {self.__name__} in {out}") as status:
            self.repro = wait_for_repro(process, out, status)
        if self.repro is None:
            return f"no repro shows this failure; {out / LOG} says why"
        return f"the repro is {self.repro}"


def _observed(wrapped: Wrapped | None, compiler_fn: Any) -> Any:
    return None if wrapped is None else wrapped.observed(compiler_fn)


def _failed(wrapped: Wrapped | None, number: int, error: BaseException | None) -> None:
    if wrapped is not None:
        wrapped.failed(number, error)


def _is_first(out: Path) -> bool:
    """Whether no other rank that this machine's launcher has started, in this attempt of its job, has failed before.

    A job's id and port may be those of all jobs.
    """
    launcher, start = os.getppid(), ""
    with contextlib.suppress(OSError):  # when it started, in clock ticks: a later process may have its number
        start = Path(f"/proc/{launcher}/stat").read_text().rpartition(")")[2].split()[19]
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    marker = out / f".first-{socket.gethostname()}-{launcher}-{start}-{attempt}"
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        return False
    return True


def _next(name: str) -> Path:
    """Return a new output folder; under torchrun the same folder for all ranks of the job."""
    run = os.environ.get("TORCHELASTIC_RUN_ID") if "RANK" in os.environ else None
    if run is not None:
        return RESULTS / f"{name}-run-{run}"
    return next_place(name)


def wrap(
    backend: Any = "inductor",
    *,
    out: Path | str | None = None,
    options: Sequence[str] = (),
    wait: bool = True,
    compare: bool = True,
) -> Any:
    """Return a backend for torch.compile that compiles with `backend`, a name or whatever torch.compile takes.

    Its first failure, while compiling, in a call of the compiled function or in its backward pass, is reduced to a
    repro by another process. The exception then goes on, with a note that names the repro; without `wait`, at once.
    `options` are command-line options of `minify reduce`.

    With `compare`, some results are compared with eager's, as `minify run` does but without gradients. A wrong result
    is reduced like a failure, and a warning names the repro.

    `out` is by default `minify-out/<backend>-<n>`. If the folder is in use, a number is appended. Under torchrun each
    rank has a folder in `out`, and only the first rank that fails on a machine is reduced, again after a restart. Under
    `minify run`, returns `backend`.
    """
    if script.under_run:
        return backend
    if isinstance(backend, str):
        compiler_for(backend, None, None, None)  # raises torch's own error for an unknown name
    name = name_of(backend)
    place = _next(name).absolute() if out is None else Path(out).absolute()
    return Wrapped(backend, name, place, options, wait, compare)
