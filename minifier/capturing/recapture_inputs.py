"""Run the script a second time, to record the inputs of a call that died, hung, or changed its inputs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from minifier.capturing.capture import capture
from minifier.capturing.captured import Captured, FailingGraph
from minifier.capturing.find_failures import FoundFailures
from minifier.capturing.terms import Keep
from minifier.case.store import load, save
from minifier.failure import Kind, same
from minifier.process.progress import SILENT, Ui

_MIN_HANG_SECONDS = 2.0  # time limit of a call that is known to hang


def recapture_inputs(
    found: FoundFailures, failing: FailingGraph, place: Path, ui: Ui = SILENT
) -> tuple[FailingGraph, Path]:
    """Run the script again in `place`, and save the inputs before the failing call.

    Return the failure of the second run and the folder of its Case. If the second run differs, return the failure of
    the first run and its folder.
    """
    folder = found.graphs / str(failing.number)
    hangs = failing.failure.fingerprint.kind is Kind.TIMEOUT
    patience = max(_MIN_HANG_SECONDS, 2 * found.captured.slowest) if hangs else None
    keep = Keep(failing.number, failing.call, patience)
    second = capture(found.program, place, replace(found.terms, keep=keep), ui)
    case_folder = place / str(failing.number)
    for other in second.failing:
        if (other.number, other.call) != (failing.number, failing.call):
            continue
        if other.unsaved:
            return replace(failing, unsaved=other.unsaved), folder
        if other.inputs_lost:  # they could not be saved before the call
            break
        if hangs and other.failure.fingerprint.kind is Kind.TIMEOUT:
            case = load(case_folder)  # the second run's waiting time means nothing
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
    if second.end.interrupted:
        raise KeyboardInterrupt
    return _not_reproduced(failing, second, folder, ui)


def _is_death(failing: FailingGraph) -> bool:
    return failing.failure.fingerprint.kind in (Kind.SIGNAL, Kind.EXIT)


def _not_reproduced(failing: FailingGraph, second: Captured, folder: Path, ui: Ui) -> tuple[FailingGraph, Path]:
    """Continue with the first run's failure and Case, if possible, and say so."""
    other_failures = "; ".join(f"graph {f.number}: {f.sentence}" for f in second.failing)
    what = f"the second run did not fail in call {failing.call} of graph {failing.number} as the first did: " + (
        f"it showed {other_failures}" if other_failures else "no backend call failed in it"
    )
    case = load(folder) if not failing.unsaved else None
    if case is None or case.failure.fingerprint != failing.failure.fingerprint:
        return replace(failing, unsaved=failing.unsaved or f"{what}. The failure may depend on chance"), folder
    known = "by their shapes alone" if case.tensors is None else "as the call left them"
    ui.say(f"{what}. The failure may depend on chance; going on with its inputs {known}")
    return failing, folder
