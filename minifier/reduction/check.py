"""The check phase: does the captured failure show when the graph goes to the backend again, and how often?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from minifier.case import Case, TensorMeta
from minifier.case.ops import atoms, with_ops
from minifier.case.symbolic_sizes import has_symbols, specialised
from minifier.errors import MinifyError, NoRepro, NothingToReduce
from minifier.failure import Aspect, Kind, Stage, Verdict
from minifier.probe.evaluate import run_eagerly
from minifier.probe.verdicts import Judged
from minifier.reduction.concrete_sizes import with_seen_sizes
from minifier.reduction.divergence import begins_at
from minifier.reduction.flakiness import fewest_calls, in_one_call, tries_of
from minifier.reduction.probe_runner import ProbeRunner

_PASSING = 60.0  # seconds that an innocent candidate may take, where a hang is sought


def record_values(lab: ProbeRunner, case: Case) -> str:
    """Runs the whole graph eagerly and keeps every value: cuts of a failure at run time need them. Gives the op that
    raised, where eager is to raise and the compiled graph not.

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
    eager_is_to_raise = case.failure.fingerprint.message == Aspect.NO_EXCEPTION.value
    if result["status"] != "pass" and not eager_is_to_raise:
        raise NothingToReduce(
            "the graph fails without the backend as well, so the fault is in the program, not in the backend:\n"
            f"{result['traceback']}"
        )
    lab.bench.record(folder)
    return str(result.get("at", ""))


def check(lab: ProbeRunner) -> Case:
    """Probes the whole graph, more often where it is cheap or the failure flaky, and the empty one; sets the
    timeout and the rate.

    Raises NoRepro if the failure does not show again, saying what was seen instead.
    """
    case = with_seen_sizes(lab, lab.bench.case)
    raising = "" if case.failure.fingerprint.stage.compiles else record_values(lab, case)
    if case.failure.fingerprint.kind is Kind.TIMEOUT:
        _time_the_innocent(lab, case)
    case = _static(lab, fewest_calls(lab, case))
    tries = tries_of(lab, case)
    shown = [judged for judged in tries if judged.verdict is Verdict.SAME]
    if not shown:
        raise _not_again(tries[0], case)
    lab.expect(len(shown), len(tries))
    if lab.repeats > 1:
        case = in_one_call(lab, case)
    if case.failure.fingerprint.kind is not Kind.TIMEOUT:
        lab.calibrate(max(judged.seconds for judged in shown))
    lab.spread(min(judged.seconds for judged in shown))  # the first may have imported for all of them
    (empty,) = lab.probe([with_ops(case, ())])
    if empty.verdict is Verdict.SAME:
        raise NoRepro(
            "the backend fails in the same way on a graph without any op, so no op is to blame: "
            "look at how the backend is set up"
        )
    if case.failure.fingerprint.stage is Stage.COMPARE and not case.failure.hints:
        hints = ((raising,),) if raising else begins_at(lab, case)
        case = replace(case, failure=replace(case.failure, hints=hints))
    return case


def start(lab: ProbeRunner) -> Case:
    """The Case to reduce: of a backward pass the ops that a smaller graph has already accused, if they show it
    by themselves; else the whole one, checked."""
    case = lab.bench.case
    if case.backward and case.failure.fingerprint.stage.compiles:
        for names in case.failure.hints:
            accused = with_ops(case, names)
            (judged,) = lab.probe([accused])
            if judged.verdict is Verdict.SAME:
                lab.calibrate(judged.seconds)
                lab.spread(judged.seconds)
                return accused
    return check(lab)


def _time_the_innocent(lab: ProbeRunner, case: Case) -> None:
    """Sets the timeout by candidates that end: how long a hang is waited for is what every probe of it costs."""
    lab.allow(min(_PASSING, lab.timeout or _PASSING))
    groups = atoms(case.graph)
    seconds = 0.0
    for names in ((), *groups[:1], *groups[-1:]):
        (judged,) = lab.probe([with_ops(case, names)])
        if judged.verdict is Verdict.PASS:
            seconds = max(seconds, judged.seconds)
    lab.calibrate(seconds)


def _static(lab: ProbeRunner, case: Case) -> Case:
    """Most failures of graphs with symbolic sizes do not need these; without them every probe is cheaper."""
    if has_symbols(case.inputs) and lab.probe([specialised(case)])[0].verdict is Verdict.SAME:
        return specialised(case)
    return case


def _not_again(judged: Judged, case: Case) -> MinifyError:
    head = "calling the backend on the captured graph again does not show the failure: "
    if judged.fault:
        return MinifyError(f"a probe failed by itself:\n{judged.fault}")
    if judged.failure is not None:
        return NoRepro(head + f"it showed {judged.failure.fingerprint.sentence()}\n{judged.failure.traceback}")
    return NoRepro(
        head + "the backend took it each time. The failure may depend on earlier calls, on what Dynamo hands over "
        "beside the graph, or on other state of the script."
    )
