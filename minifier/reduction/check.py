"""The check phase: does the captured failure show when the graph goes to the backend again, and how often?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from minifier.case import Case, TensorMeta
from minifier.errors import MinifyError, NoRepro, NothingToReduce
from minifier.failure import Aspect, Kind, Stage, Verdict
from minifier.passes.ops import atoms, with_ops
from minifier.passes.symbols import has_symbols, specialised
from minifier.probe.evaluate import run_eagerly
from minifier.probe.judge import Judged
from minifier.reduction.divergence import begins_at
from minifier.reduction.lab import Lab
from minifier.reduction.sizes import with_seen_sizes

_EXPENSIVE = 5.0  # seconds of a failing run from which on it is not repeated
_TRIES = 24  # of the whole graph, before a failure that does not show is taken to be gone
_TRY_SECONDS = 60.0
_CHEAP = 1.0  # seconds of a probe of the reduced graph up to which it is made some times more
_CONFIRMING = 3
_PASSING = 60.0  # seconds that an innocent candidate may take, where a hang is sought


def record_values(lab: Lab, case: Case) -> str:
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


def check(lab: Lab) -> Case:
    """Probes the whole graph, more often where it is cheap or the failure flaky, and the empty one; sets the
    timeout and the rate.

    Raises NoRepro if the failure does not show again, saying what was seen instead.
    """
    case = with_seen_sizes(lab, lab.bench.case)
    raising = "" if case.failure.fingerprint.stage.compiles else record_values(lab, case)
    if case.failure.fingerprint.kind is Kind.TIMEOUT:
        _time_the_innocent(lab, case)
    case = _static(lab, _fewest_calls(lab, case))
    tries = _probes(lab, case)
    shown = [judged for judged in tries if judged.verdict is Verdict.SAME]
    if not shown:
        raise _not_again(tries[0], case)
    lab.expect(len(shown) / len(tries))
    if case.failure.fingerprint.kind is not Kind.TIMEOUT:
        lab.calibrate(max(judged.seconds for judged in shown))
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


def start(lab: Lab) -> Case:
    """The Case to reduce: of a backward pass the ops that a smaller graph has already accused, if they show it
    by themselves; else the whole one, checked."""
    case = lab.bench.case
    if case.backward and case.failure.fingerprint.stage.compiles:
        for names in case.failure.hints:
            accused = with_ops(case, names)
            (judged,) = lab.probe([accused])
            if judged.verdict is Verdict.SAME:
                lab.calibrate(judged.seconds)
                return accused
    return check(lab)


def _time_the_innocent(lab: Lab, case: Case) -> None:
    """Sets the timeout by candidates that end: how long a hang is waited for is what every probe of it costs."""
    lab.allow(min(_PASSING, lab.timeout or _PASSING))
    groups = atoms(case.graph)
    seconds = 0.0
    for names in ((), *groups[:1], *groups[-1:]):
        (judged,) = lab.probe([with_ops(case, names)])
        if judged.verdict is Verdict.PASS:
            seconds = max(seconds, judged.seconds)
    lab.calibrate(seconds)


def _fewest_calls(lab: Lab, case: Case) -> Case:
    """A failure seen at a later call may need its inputs, a second call, or all the calls before it."""
    for calls in (1, 2):
        if calls < case.calls:
            fewer = replace(case, calls=calls)
            if lab.probe([fewer])[0].verdict is Verdict.SAME:
                return fewer
    return case


def _static(lab: Lab, case: Case) -> Case:
    """Most failures of graphs with symbolic sizes do not need these; without them every probe is cheaper."""
    if has_symbols(case.inputs) and lab.probe([specialised(case)])[0].verdict is Verdict.SAME:
        return specialised(case)
    return case


def _probes(lab: Lab, case: Case) -> list[Judged]:
    """Two tries, one if that is expensive; as soon as they do not agree, as many as tell the rate."""
    known = case.script.seconds
    if case.failure.fingerprint.kind is Kind.TIMEOUT:
        return lab.probe([case])
    tries = lab.probe([case] * (2 if lab.workers > 1 and known < _EXPENSIVE else 1))
    if len(tries) == 1 and tries[0].verdict is Verdict.SAME and tries[0].seconds < _EXPENSIVE:
        tries += lab.probe([case])
    verdicts = {judged.verdict for judged in tries}
    if not lab.doubtful and verdicts in ({Verdict.SAME}, {Verdict.OTHER}, {Verdict.UNRESOLVED}):
        return tries
    while len(tries) < _TRIES and sum(judged.seconds for judged in tries) < _TRY_SECONDS:
        tries += lab.probe([case])
    return tries


def comes_and_goes(lab: Lab, case: Case) -> bool:
    """Whether a reduced Case that was seen to fail does not always; sets the rate then. A failure that shows in
    most runs can pass the check phase as one that shows in all."""
    if lab.doubtful or lab.repeats > 1 or lab.last_seconds > _CHEAP:
        return False
    lab.phase = "check"
    tries = [lab.probe([case])[0] for _ in range(_CONFIRMING)]
    if all(judged.verdict is Verdict.SAME for judged in tries):
        return False
    while len(tries) < _TRIES:
        tries += lab.probe([case])
    lab.expect(max(1, sum(judged.verdict is Verdict.SAME for judged in tries)) / len(tries))
    return True


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
