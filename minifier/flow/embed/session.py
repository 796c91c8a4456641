"""Observe backend calls in the user's own process, and save each graph as a Case: `minifier.capture` and others."""

from __future__ import annotations

import contextlib
import functools
import itertools
import linecache
import os
import shlex
import shutil
import sys
import tempfile
import threading
import tokenize
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from minifier.capturing import script
from minifier.capturing.capture import MIN_COMPARING_SECONDS
from minifier.capturing.observer import Observer
from minifier.capturing.process_state import Fresh, baseline_here
from minifier.capturing.running_calls import RunningCalls
from minifier.capturing.script_limits import Comparing, Terms
from minifier.data.case import Case
from minifier.data.case.run_folder import numbered, remove_empty
from minifier.data.case.store import CASE, load, save
from minifier.data.failure import Tolerance
from minifier.data.losses import on_loss
from minifier.errors import MinifyError
from minifier.flow.folders import STATUS, clear_finished, is_unfinished, keep_source, new_folder
from minifier.process.temporary import hold, release
from minifier.repro.report.privacy import note_private
from minifier.torch_side.fx.script_objects import notebook_shell
from minifier.torch_side.interfaces import ending_all
from minifier.torch_side.torch_private import dynamo, modes, registrations

registrations.note_registrations()  # from now on, to know which import registers a backend

Wanted = Callable[[Any], Any]
"""Maps the compiler function of a backend call to the one to observe instead; None: do not observe this call."""
OnFailure = Callable[[int, BaseException | None], None]


class Session:
    """Observes backend calls of this process until `end`.

    `on_failure` is called with a failing graph's number and the exception about to be raised, or None for a result that
    is wrong. Errors of this tool never replace the user's own: they become a note, a warning, or nothing.

    With `compare`, results are compared with eager's as `minify run` does, but for gradients.

    Cases are kept in `folder`, which is removed by `end`. With `keep_in`, `folder` is made in that folder, and stays if
    the process dies. With `keep_inputs`, the inputs of each call of a compiled function are kept there too.
    """

    def __init__(
        self,
        name: str,
        on_failure: OnFailure,
        wanted: Wanted = lambda compiler_fn: compiler_fn,
        keep_in: Path | None = None,
        keep_inputs: bool = False,
        compare: bool = False,
    ) -> None:
        _warn_of_losses()
        self.pid = os.getpid()
        self._keep_in, self._new_folders = keep_in, list[Path]()
        self._status: RunningCalls | None = None
        self._lock_file: int | None = None
        self._folder: Path | None = None
        comparing = Comparing(Tolerance(), seconds=MIN_COMPARING_SECONDS) if compare else None
        self._terms = Terms(keep_all=keep_inputs, in_place=True, comparing=comparing)
        self._name, self._wanted, self._on_failure = name, wanted, on_failure
        self._fresh = Fresh(baseline_here())  # starts an interpreter in the background
        self._observer: Observer | None = None
        self._lock = threading.Lock()
        _begin(self)

    @property
    def folder(self) -> Path:
        """The folder of the Cases; exists from the first backend call on."""
        assert self._folder is not None
        return self._folder

    @property
    def has_observed(self) -> bool:
        """Whether there was a backend call."""
        return self._observer is not None

    def end(self) -> None:
        """Stop observing and remove the Cases. Does nothing in a fork of the process that began the session."""
        if os.getpid() != self.pid:
            return
        _end(self)
        if self._observer is not None:
            self._observer.close()
        self._fresh.end()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        if self._lock_file is not None:
            release(self._lock_file)
        remove_empty(self._new_folders)

    def forget(self) -> None:
        """Remove the Cases saved so far."""
        for folder in self.folder.iterdir() if self._folder is not None else ():
            if folder.is_dir():
                shutil.rmtree(folder, ignore_errors=True)

    def observer_for(self, compiler_fn: Any) -> tuple[Observer, Any] | None:
        """Return the observer, and the compiler function to observe instead of `compiler_fn`.

        None if this session does not want the call, or if no fresh interpreter tells torch's defaults.
        """
        wanted = self._wanted(compiler_fn) if os.getpid() == self.pid else None
        if wanted is None:
            return None
        with self._lock:
            if self._observer is None:
                try:
                    self._observer = self._new_observer()
                except (MinifyError, OSError) as error:
                    warnings.warn(f"minifier does not observe: {error}", stacklevel=2)
                    _end(self)
                    return None
            return self._observer, wanted

    def _new_observer(self) -> Observer:
        """Build the observer, at the first backend call: this waits for the fresh interpreter."""
        self._folder = self._new_folder()
        return Observer(
            self.folder,
            self._name,
            self._fresh.baseline,
            self._terms,
            self._status,
            on_failure=lambda record, error: self._failed(record.number, error),
        )

    def _new_folder(self) -> Path:
        if self._keep_in is not None:
            try:
                folder, self._new_folders = new_folder(self._keep_in)
                self._status = RunningCalls(folder / STATUS)
                self._lock_file = hold(folder / STATUS)
                note_private(folder)
                keep_source(folder, source_here()[0])
                return folder
            except Exception as error:  # noqa: BLE001 - the user's process goes on
                warnings.warn(f"minifier keeps nothing for the case that the process dies: {error}", stacklevel=2)
                self._status = None
        return Path(tempfile.mkdtemp(prefix="minify-"))

    def _failed(self, number: int, error: BaseException | None) -> None:
        try:
            self._on_failure(number, error)
        except Exception as fault:  # noqa: BLE001 - the user's own error must be raised
            tell(error, f"minifier: this failure could not be kept: {type(fault).__name__}: {fault}")


@functools.cache
def _warn_of_losses() -> None:
    """Warn of each private interface that this torch lacks and a session needs, from now on."""
    on_loss(lambda sentence: _warn(f"minifier: {sentence}"))


def _warn(sentence: str) -> None:
    try:
        warnings.warn(sentence, stacklevel=2)
    except UserWarning as warning:  # where warnings are errors: not of the user's compilation
        print(warning, file=sys.stderr)


_sessions: list[Session] = []
_end_hook: Callable[[], None] | None = None


def _begin(session: Session) -> None:
    global _end_hook
    _sessions.append(session)
    if _end_hook is None:
        _end_hook = ending_all(dynamo.observe_backend_calls(_observe), modes.note_inference_mode())


def _end(session: Session) -> None:
    global _end_hook
    if session in _sessions:
        _sessions.remove(session)
    if not _sessions and _end_hook is not None:
        _end_hook()
        _end_hook = None


def _observe(compiler_fn: Any, gm: torch.fx.GraphModule, inputs: Sequence[Any], call: Callable[[], Any]) -> Any:
    """Make a backend call, observed by the latest session that wants to."""
    for session in reversed(_sessions):
        observation = session.observer_for(compiler_fn)
        if observation is not None:
            observer, wanted = observation
            return observer(wanted, gm, inputs, call)
    return call()


def keep_or_tell(session: Session, number: int, error: BaseException | None, out: Path) -> str:
    """Keep the Case as `keep` does; return the beginning of what to `tell` of it.

    Empty if the graph could not be saved, which is told.
    """
    case = keep(session, number, out)
    if case is None:
        tell(error, "minifier: the failing graph could not be saved; `minify run` may do more")
        return ""
    if error is not None:
        return "minifier:"
    return f"minifier: a result of graph {case.script.graph_number} is wrong: {case.failure.sentence};"


def keep(session: Session, number: int, out: Path) -> Case | None:
    """Copy the Case of a graph to `out`/case, with the needed definitions of the script; return the Case.

    None if the graph could not be saved.
    """
    from minifier.flow.keep_case import keep_case

    folder = session.folder / str(number)
    if not (folder / CASE).exists():
        return None
    source, is_file = source_here()
    if not is_file:  # its line counts from its cell, the source has all cells
        case = load(folder)
        save(replace(case, script=replace(case.script, line=0)), folder)
    note_private(folder)
    return keep_case(folder, out, source)


def name_of(called: Any) -> str:
    """Return the name of a backend or function, of its class if it has none."""
    return called if isinstance(called, str) else str(getattr(called, "__name__", type(called).__name__))


def free_folder(folder: Path | str) -> Path:
    """Return the folder's absolute path, with a number if the folder is in use: a restarted job must not fail.

    A missing or empty folder is free. So is a folder of capturing processes, unless a process died there in a backend
    call. Folders of other dead processes are removed.
    """
    path = Path(folder).absolute()
    for place in itertools.chain([path], numbered(path, 2)):
        try:
            is_free = not place.exists() or (place.is_dir() and not any(place.iterdir()))
        except OSError:  # unreadable: writing there will raise the error
            return place
        if is_free or (is_unfinished(place) and clear_finished(place)):
            return place
    raise AssertionError("numbers have an end")


def tell(error: BaseException | None, note: str) -> None:
    """Add a note that the exception's traceback shows; warn if there is no exception.

    Python 3.10 has no notes, and prints to standard error.
    """
    if error is None:
        _warn(note)
    elif hasattr(error, "add_note"):
        error.add_note(note)
    else:
        print(note, file=sys.stderr)


# The names under which linecache has what was entered into a session: of Python from 3.13 on, and of IDLE.
_ENTERED = ("<python-input-", "<pyshell#")


def source_here() -> tuple[str, bool]:
    """Return the source of the running script, or of a session's cells so far; and whether a file was read.

    The source is empty if neither is known.
    """
    main = sys.modules["__main__"]
    file = getattr(main, "__file__", None)
    if file is not None and Path(file).suffix == ".py" and Path(file).exists():
        with tokenize.open(file) as source:
            return source.read(), True
    shell = notebook_shell()
    if shell is None:
        entered = [name for name in linecache.cache if name.startswith(_ENTERED)]
        return "\n\n".join("".join(linecache.getlines(name)) for name in entered), False
    cells = [shell.transform_cell(cell) for cell in shell.user_ns.get("In", ()) if cell.strip()]
    return "\n\n".join(cells), False


@contextlib.contextmanager
def capture(folder: Path | str, *, keep_inputs: bool = False, compare: bool = True) -> Iterator[None]:
    """Save the first failing backend call of the body into `folder` as a Case; note the folder on the exception.

    With `compare`, some results are compared with eager's, as `minify run` does but without gradients. A wrong result
    is saved like a failure, and a warning names the folder.

    Meant for machines that must run nothing else: `minify reduce FOLDER` makes the repro elsewhere.

    If the process dies in a backend call, `minify reduce FOLDER` repeats the call to see the failure. The inputs of a
    call of a compiled function are then known only with `keep_inputs`, which saves them before each call.

    Functions compiled earlier are not observed: compile within the body. If `folder` is in use, the Case goes to
    `folder-2`, or else `folder-3`, and so on. Under `minify run` this does nothing.
    """
    if script.under_run:
        yield
        return
    out = free_folder(folder)
    has_failed = False

    def failed(number: int, error: BaseException | None) -> None:
        nonlocal has_failed
        if has_failed:
            return
        has_failed = True
        if seen := keep_or_tell(session, number, error, out):
            command = f"minify reduce {shlex.quote(str(out))}"
            tell(error, f"{seen} the failing backend call is in {out}: `{command}` makes a repro of it")

    session = Session(out.name, failed, keep_in=out, keep_inputs=keep_inputs, compare=compare)
    try:
        yield
    finally:
        session.end()
