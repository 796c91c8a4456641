"""An observer of backend calls in a process that is not ours, where what is seen becomes a Case at once."""

from __future__ import annotations

import itertools
import os
import shutil
import sys
import tempfile
import threading
import tokenize
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from minifier.capturing.baseline import Fresh, baseline_here
from minifier.capturing.events import forward_of
from minifier.capturing.observer import Observer
from minifier.capturing.running_calls import RunningCalls
from minifier.capturing.terms import Terms
from minifier.case import Case
from minifier.case.store import CASE, load, save
from minifier.embed.notes import add_note
from minifier.errors import MinifyError
from minifier.report.privacy import note_private
from minifier.torch_private import asked_backend, note_inference_mode, note_registrations, observe_backend_calls
from minifier.workflow.leftovers import (
    SOURCE,
    STATUS,
    clear_finished,
    is_unfinished,
    lock_leftover,
    new_folder,
    remove_made,
)

note_registrations()  # of what is registered from now on it is known which import did it
note_inference_mode()

Wanted = Callable[[Any], Any]
"""From the compiler function of a backend call to the one that is to be observed in its place; None: not this call."""
OnFailure = Callable[[int, BaseException], None]


class Session:
    """Observes backend calls of this process until it is ended. `folder` is a new one, in which what is seen of each
    graph is kept as long as the session lasts; `on_failure` is called with the number of a graph that failed and with
    what is about to be raised. Whatever goes wrong here is told beside the user's own error, or not at all. Where the
    process dies, what was seen stays in a folder in `kept`; with `keep_inputs`, the inputs of each call of what was
    compiled as well."""

    def __init__(
        self, name: str, wanted: Wanted, on_failure: OnFailure, kept: Path | None = None, keep_inputs: bool = False
    ) -> None:
        self.pid = os.getpid()
        self._kept, self._made_for_it = kept, list[Path]()
        self._status: RunningCalls | None = None
        self._held: int | None = None
        self._folder: Path | None = None
        self._terms = Terms(keep_all=keep_inputs, in_place=True)
        self._name, self._wanted, self._on_failure = name, wanted, on_failure
        self._fresh = Fresh(baseline_here())  # which starts while the script goes on
        self._observer: Observer | None = None
        self._lock = threading.Lock()
        _begin(self)

    @property
    def folder(self) -> Path:
        """Where what is seen is kept, from the first call on."""
        assert self._folder is not None
        return self._folder

    def end(self) -> None:
        """Observes no longer; what was seen is gone. In a forked process it leaves all to the one that began it."""
        if os.getpid() != self.pid:
            return
        _end(self)
        if self._observer is not None:
            self._observer.close()
        self._fresh.end()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        if self._held is not None:
            os.close(self._held)
        remove_made(self._made_for_it)

    def forget(self) -> None:
        """Lets go of what was seen of graphs so far."""
        for folder in self.folder.iterdir() if self._folder is not None else ():
            if folder.is_dir():
                shutil.rmtree(folder, ignore_errors=True)

    def observer_for(self, compiler_fn: Any) -> tuple[Observer, Any] | None:
        """The observer, and what is to be observed in the place of this compiler function; None if that is not this
        session's business, or if there is no fresh interpreter that tells what is ordinary."""
        wanted = self._wanted(compiler_fn) if os.getpid() == self.pid else None
        if wanted is None:
            return None
        with self._lock:
            if self._observer is None:
                try:
                    self._observer = self._made()
                except (MinifyError, OSError) as error:
                    warnings.warn(f"minifier does not observe: {error}", stacklevel=2)
                    _end(self)
                    return None
            return self._observer, wanted

    def _made(self) -> Observer:
        """At the first call of a backend, as it waits for the fresh interpreter."""
        self._folder = self._new_folder()
        return Observer(
            self.folder,
            self._name,
            self._fresh.path,
            self._fresh.baseline,
            self._terms,
            self._status,
            on_failure=lambda record, error: self._failed(record.number, error),
        )

    def _new_folder(self) -> Path:
        if self._kept is not None:
            try:
                folder, self._made_for_it = new_folder(self._kept)
                self._status = RunningCalls(folder / STATUS)
                self._held = lock_leftover(folder)
                note_private(folder)
                (folder / SOURCE).write_text(source_here()[0], encoding="utf-8", errors="replace")
                return folder
            except Exception as error:  # noqa: BLE001 - the user's process goes on
                warnings.warn(f"minifier keeps nothing for the case that the process dies: {error}", stacklevel=2)
                self._status = None
        return Path(tempfile.mkdtemp(prefix="minify-"))

    def _failed(self, number: int, error: BaseException) -> None:
        try:
            self._on_failure(number, error)
        except Exception as fault:  # noqa: BLE001 - the user's own error is what has to be raised
            add_note(error, f"minifier: this failure could not be kept: {type(fault).__name__}: {fault}")

    def case_folder(self, number: int) -> Path | None:
        """Where the Case of a graph is, if it could be written down."""
        folder = self.folder / str(number)
        return folder if (folder / CASE).exists() else None


_sessions: list[Session] = []
_end_hook: Callable[[], None] | None = None


def _begin(session: Session) -> None:
    global _end_hook
    _sessions.append(session)
    if _end_hook is None:
        _end_hook = observe_backend_calls(_observe)


def _end(session: Session) -> None:
    global _end_hook
    if session in _sessions:
        _sessions.remove(session)
    if not _sessions and _end_hook is not None:
        _end_hook()
        _end_hook = None


def _observe(compiler_fn: Any, gm: torch.fx.GraphModule, inputs: Sequence[Any], call: Callable[[], Any]) -> Any:
    """Every backend call of the process comes by here: the last session that wants it observes it."""
    for session in reversed(_sessions):
        found = session.observer_for(compiler_fn)
        if found is not None:
            observer, wanted = found
            return observer(wanted, gm, inputs, call)
    return call()


def keep(session: Session, number: int, out: Path) -> Case | None:
    """Writes the Case of a graph into `out`, as case/, with what it needs of the script's source; None if it could not
    be written down."""
    from minifier.workflow.keep_case import keep_case

    folder = session.case_folder(number)
    if folder is None:
        return None
    out.mkdir(parents=True, exist_ok=True)
    source, is_file = source_here()
    if not is_file:  # a line of one cell says nothing of a place among all of them
        case = load(folder)
        save(replace(case, script=replace(case.script, line=0)), folder)
    note_private(folder)
    return keep_case(folder, out, forward_of(session.folder, number), source)


def source_here() -> tuple[str, bool]:
    """The source of the script that this process runs, or of the cells of a notebook that were run so far, empty where
    there is neither; and whether it is that of a file."""
    main = sys.modules["__main__"]
    file = getattr(main, "__file__", None)
    if file is not None and Path(file).suffix == ".py" and Path(file).exists():
        with tokenize.open(file) as source:
            return source.read(), True
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is None:
        return "", False
    cells = [shell.transform_cell(cell) for cell in shell.user_ns.get("In", ()) if cell.strip()]
    return "\n\n".join(cells), False


def free_folder(folder: Path | str) -> Path:
    """The folder's absolute path, or with a number that of the first one like it that has nothing in it: a job that is
    started again after a failure is not to fail of what that left. Beside other processes at work there is room."""
    path = Path(folder).absolute()
    for place in itertools.chain([path], (path.with_name(f"{path.name}-{n}") for n in itertools.count(2))):
        try:
            is_free = not place.exists() or (place.is_dir() and not any(place.iterdir()))
        except OSError:  # nobody can look into it; what is to be written there will tell
            return place
        if is_free or (is_unfinished(place) and clear_finished(place)):
            return place
    raise AssertionError("numbers have an end")


def backend_given(compiler_fn: Any) -> Any:
    """What torch.compile was given as its backend."""
    return asked_backend(compiler_fn).function
