"""The check phase: does the captured failure show when the graph goes to the backend again?"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

from minifier.case import Case, ScalarInput, TensorMeta
from minifier.errors import MinifyError, NoRepro, NothingToReduce
from minifier.failure import Stage, Verdict
from minifier.passes.ops import with_ops
from minifier.probe.evaluate import run_eagerly
from minifier.probe.judge import Judged
from minifier.reduction.lab import Lab

_EXPENSIVE = 5.0  # seconds of a failing run from which on it is not repeated


def record_values(lab: Lab, case: Case) -> None:
    """Runs the whole graph eagerly and keeps every value: cuts of a failure at run time need them.

    Raises NothingToReduce if eager fails as well: then it is not the backend's failure.
    """
    wanted = [node.name for node in case.graph.ops if isinstance(node.value, TensorMeta)]
    folder = Path(lab.scratch)
    (result,) = lab.run([lambda: run_eagerly(lab.bench, case.graph, case.inputs, case.state, wanted, folder)])
    if result is None:
        raise NoRepro(
            "the graph could not be run without the backend to record its values"
            + (f":\n{lab.faults[-1]}" if lab.faults else " (the process died)")
        )
    if result["status"] != "pass":
        raise NothingToReduce(
            "the graph fails without the backend as well, so the fault is in the program, not in the backend:\n"
            f"{result['traceback']}"
        )
    lab.bench.record(folder)


def check(lab: Lab) -> Case:
    """Probes the whole graph, twice unless that is expensive, and the empty one; sets the timeout.

    Raises NoRepro if the failure does not show again, saying what was seen instead.
    """
    case = lab.bench.case
    if case.failure.fingerprint.stage is not Stage.COMPILE:
        record_values(lab, case)
        case = _fewest_calls(lab, case)
    whole, *rest = _probes(lab, case)
    if whole.verdict is not Verdict.SAME:
        raise _not_again(whole, case)
    again = Counter(judged.verdict for judged in rest)
    if again[Verdict.SAME] < len(rest):
        raise NoRepro(
            "the failure comes and goes: of two runs of the whole captured graph one showed it. "
            "Flaky failures cannot be reduced yet."
        )
    lab.calibrate(whole.seconds)
    (empty,) = lab.probe([with_ops(case, ())])
    if empty.verdict is Verdict.SAME:
        raise NoRepro(
            "the backend fails in the same way on a graph without any op, so no op is to blame: "
            "look at how the backend is set up"
        )
    return case


def _fewest_calls(lab: Lab, case: Case) -> Case:
    """A failure seen at a later call may need its inputs, a second call, or all the calls before it."""
    for calls in (1, 2):
        if calls < case.calls:
            fewer = replace(case, calls=calls)
            if lab.probe([fewer])[0].verdict is Verdict.SAME:
                return fewer
    return case


def _probes(lab: Lab, case: Case) -> list[Judged]:
    known = case.script.seconds
    first = lab.probe([case] * (2 if lab.workers > 1 and known < _EXPENSIVE else 1))
    if len(first) == 1 and first[0].verdict is Verdict.SAME and first[0].seconds < _EXPENSIVE:
        first += lab.probe([case])
    return first


def _not_again(judged: Judged, case: Case) -> MinifyError:
    head = "calling the backend on the captured graph again does not show the failure: "
    if judged.fault:
        return MinifyError(f"a probe failed by itself:\n{judged.fault}")
    if judged.failure is not None:
        return NoRepro(head + f"it showed {judged.failure.fingerprint.sentence()}\n{judged.failure.traceback}")
    if any(isinstance(item, ScalarInput) and item.symbol for item in case.inputs):
        return NoRepro(
            head + "the backend took it. The graph has symbolic sizes, which were replayed as fixed ones: "
            "a failure that needs the symbol cannot be reduced yet."
        )
    return NoRepro(
        head + "the backend took it. The failure may depend on earlier calls, on what Dynamo hands over "
        "beside the graph, or on other state of the script."
    )
