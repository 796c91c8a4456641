"""Runs the script a second time, to have the inputs of a call that did not leave them: it died, never came back, or
changed them before it failed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from minifier.capturing.capture import Captured, FailingGraph, capture
from minifier.capturing.script import Program
from minifier.capturing.terms import Keep, Terms
from minifier.case.store import load, save
from minifier.failure import Kind, same
from minifier.process.progress import SILENT, Ui

_MIN_HANG_SECONDS = 2.0  # that a call gets which is known to hang


def recapture_inputs(
    program: Program,
    failing: FailingGraph,
    first: Captured,
    folder: Path,
    place: Path,
    terms: Terms,
    ui: Ui = SILENT,
) -> tuple[FailingGraph, Path]:
    """The failure as the second run showed it, and the folder of its Case, below `place`, with the inputs written down
    ahead of the call. What is known from the first run (`folder`) stays where the script does not do the same again.
    """
    assert failing.failure is not None
    hangs = failing.failure.fingerprint.kind is Kind.TIMEOUT
    patience = max(_MIN_HANG_SECONDS, 2 * first.slowest) if hangs else None
    again = capture(program, place, replace(terms, keep=Keep(failing.number, failing.call, patience)), ui)
    case_folder = place / str(failing.number)
    for other in again.failing:
        if (other.number, other.call) != (failing.number, failing.call) or other.failure is None:
            continue
        if other.unsaved:
            return replace(failing, unsaved=other.unsaved), folder
        if other.inputs_lost:  # they could not be written ahead
            break
        if hangs and other.failure.fingerprint.kind is Kind.TIMEOUT:
            case = load(case_folder)  # how long the second run waited says nothing
            save(replace(case, failure=failing.failure), case_folder)
            return failing, case_folder
        if _is_death(other) and _is_death(failing):
            if other.failure.message != failing.failure.message:
                ui.say(
                    f"the first time it was {failing.failure.message}, now {other.failure.message}: going on with that"
                )
            return other, case_folder
        if same(failing.failure.fingerprint, other.failure.fingerprint):
            return other, case_folder
    if again.end.interrupted:
        raise KeyboardInterrupt
    return _without(failing, again, folder, ui)


def _is_death(failing: FailingGraph) -> bool:
    assert failing.failure is not None
    return failing.failure.fingerprint.kind in (Kind.SIGNAL, Kind.EXIT)


def _without(failing: FailingGraph, again: Captured, folder: Path, ui: Ui) -> tuple[FailingGraph, Path]:
    """What to go on with when the second run did not show the failure."""
    others = "; ".join(f"graph {f.number}: {f.sentence}" for f in again.failing)
    what = f"the second run did not fail in call {failing.call} of graph {failing.number} as the first did: " + (
        f"it showed {others}" if others else "no backend call failed in it"
    )
    case = load(folder) if not failing.unsaved else None
    if case is None or failing.failure is None or case.failure.fingerprint != failing.failure.fingerprint:
        return replace(failing, unsaved=failing.unsaved or f"{what}. The failure may depend on chance"), folder
    known = "by their shapes alone" if case.tensors is None else "as the call left them"
    ui.say(f"{what}. The failure may depend on chance; going on with its inputs {known}")
    return failing, folder
