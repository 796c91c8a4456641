"""Copy a captured Case into the output folder, with the needed definitions of the script."""

from __future__ import annotations

import shutil
from pathlib import Path

from minifier.capturing.captured import FailingGraph
from minifier.case import EMPTY_GRAPH, BackendReference, BackendSource, Case, Script
from minifier.case.store import ATEN, CASE, FORWARD, load, save
from minifier.report.privacy import PRIVATE
from minifier.slicing import with_definitions
from minifier.workflow.attempt import FailingCall
from minifier.workflow.backward_module import keep_forward
from minifier.workflow.interrupted_runs import Asked, note_run
from minifier.workflow.run_folder import RunFolder


def keep_case(captured: Path, out: Path, forward: int | None = None, source: str = "") -> Case:
    """Copy the captured Case to `out`/case, with its ATen graph and its forward graph; return the copy.

    `forward` is the number of the forward graph that a backward graph belongs to. `source` is the script's text,
    for definitions that no import reaches.
    """
    place = out / "case"
    case = with_definitions(load(captured), source)
    save(case, place)
    if (captured / PRIVATE).exists():
        shutil.copyfile(captured / PRIVATE, place / PRIVATE)
    if forward is not None:
        keep_forward(captured.with_name(str(forward)), case, place)
    for related in (FORWARD, ATEN):
        if (captured / related / CASE).exists():
            save(load(captured / related), place / related)
        if (place / related / CASE).exists():
            save(with_definitions(load(place / related), source), place / related)
    return load(place)


def keep_call(call: FailingCall, folder: RunFolder, asked: Asked) -> Case:
    """Copy the Case of a failing call to the output folder, and record the script there."""
    note_run(folder.path, asked)
    return keep_case(call.folder, folder.path, call.failing.forward, asked.program.source())


def case_without_graph(failing: FailingGraph, script: str) -> Case:
    """Build a Case with the failure and the backend, but no op, for a graph that could not be saved."""
    assert failing.failure is not None, "what failed is known, its graph is not"
    backend = failing.reference or BackendReference(failing.backend, BackendSource.NONE)
    return Case(EMPTY_GRAPH, (), backend, failing.failure, script=Script(script))
