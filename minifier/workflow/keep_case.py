"""Begin an attempt: copy its Case into the output folder, with the needed definitions of the script."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from minifier.capturing.captured import FailingGraph
from minifier.case import EMPTY_GRAPH, BackendReference, BackendSource, Case, Script
from minifier.case.run_folder import RunFolder
from minifier.case.store import ATEN, CASE, FORWARD, load, save
from minifier.errors import NoRepro
from minifier.interfaces.names import INDUCTOR_MODULES
from minifier.process.progress import counted
from minifier.report.privacy import PRIVATE
from minifier.slicing import with_definitions
from minifier.torch_private import INDUCTOR
from minifier.workflow.attempt import Attempt, FailingCall, Run
from minifier.workflow.backward_module import keep_forward
from minifier.workflow.interrupted_runs import Asked, lock_run, note_run
from minifier.workflow.reduction import with_memory_limit
from minifier.workflow.script_data import literals_of


def keep_case(
    captured: Path,
    out: Path,
    forward: int | None = None,
    source: str = "",
    literals: Mapping[str, str] = MappingProxyType({}),
) -> Case:
    """Copy the captured Case to `out`/case, with its ATen graph and its forward graph; return the copy.

    `forward` is the number of the forward graph that a backward graph belongs to. `source` is the script's text,
    for definitions that no import reaches; `literals` are data that it reads.
    """
    place = RunFolder(out).case
    case = with_definitions(load(captured), source, literals)
    save(case, place)
    if (captured / PRIVATE).exists():
        shutil.copyfile(captured / PRIVATE, place / PRIVATE)
    if forward is not None:
        keep_forward(captured.with_name(str(forward)), case, place)
    for related in (FORWARD, ATEN):
        if (captured / related / CASE).exists():
            save(load(captured / related), place / related)
        if (place / related / CASE).exists():
            save(with_definitions(load(place / related), source, literals), place / related)
    return load(place)


def keep_call(call: FailingCall, folder: RunFolder, asked: Asked, run: Run) -> Case:
    """Copy the Case of a failing call to the output folder; record the script there, and lock the folder."""
    note_run(folder.path, asked)
    lock_run(folder.path, run)
    program = asked.program
    literals = literals_of(program, call.found.captured.path)
    return keep_case(call.folder, folder.path, call.failing.forward, program.source(), literals)


def case_without_graph(failing: FailingGraph, script: str) -> Case:
    """Build a Case with the failure and the backend, but no op, for a graph that could not be saved."""
    backend = failing.reference or BackendReference(failing.backend, BackendSource.NONE)
    return Case(EMPTY_GRAPH, (), backend, failing.failure, script=Script(script))


def begin_with_call(call: FailingCall, asked: Asked, folder: RunFolder, run: Run) -> Attempt:
    """Return the attempt for a failing call, and copy its Case to the output folder.

    The attempt has an error if the Case could not be saved.
    """
    failing = call.failing
    if call.unsaved:
        run.ui.error(failing.traceback)
        folder.path.mkdir(parents=True, exist_ok=True)
        error = NoRepro(f"its graph cannot be saved: {failing.unsaved}")
        attempt = Attempt(run, folder, case_without_graph(failing, asked.program.name), asked, error=error)
    else:
        case = keep_call(call, folder, asked, run)
        if case.backend.name == INDUCTOR:
            run.interpreters.import_ahead(INDUCTOR_MODULES)
        size = f" ({counted(failing.ops, 'op')})" if failing.ops is not None else ""
        run.ui.say(f"graph {failing.number}{size} fails: {failing.sentence}")
        attempt = begin_with_case(case, asked, folder, run)
    return replace(attempt, call=call, capture_seconds=call.found.captured.seconds, fallbacks=call.fallbacks)


def begin_with_case(case: Case, asked: Asked | None, folder: RunFolder, run: Run) -> Attempt:
    """Return the attempt for a Case, with an error if no fresh interpreter can import its backend."""
    run = replace(run, settings=with_memory_limit(run.settings, case))
    attempt, backend = Attempt(run, folder, case, asked), case.backend
    if backend.reach is not BackendSource.NONE:
        return attempt
    return attempt.failed(no_backend(backend, backend.reason))


def no_backend(backend: BackendReference, reason: str) -> NoRepro:
    """Build the error for a backend that no other process can have, with what to do about it."""
    return NoRepro(
        f"the backend {backend.name} cannot be imported by a fresh interpreter: {reason}. "
        "Assign it to a global name of a module that can be imported, or register it in one."
    )
