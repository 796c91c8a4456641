"""Check a Case: how often its failure shows, with which premises; and the search's result once more."""

from __future__ import annotations

import math
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from minifier import search
from minifier.data.case import BackendReference, Case, Node, Scalar, Stored, TensorMeta
from minifier.data.case.calls import without_other_inputs
from minifier.data.case.ops import atoms, with_ops
from minifier.data.case.symbolic_sizes import is_unbacked_value, specialised
from minifier.data.failure import Aspect, Difference, Failure, Fingerprint, Kind, Stage, Tolerance, Verdict
from minifier.data.failure.fingerprint import DAMAGED_HEAP
from minifier.data.failure.frames import Link
from minifier.data.failure.likeness import advice, raised_alike, unlike
from minifier.data.failure.normalise import normalise, share_words
from minifier.data.settings import Settings
from minifier.data.torch_names import RUNS_ENGINE
from minifier.errors import FailsByItself, MinifyError, NoRepro, OtherMessage
from minifier.process.progress import Phase, Progress
from minifier.reduction import flakiness
from minifier.reduction.op_search import reduce_ops
from minifier.reduction.probe.evaluate import run_backward_eagerly, run_eagerly
from minifier.reduction.probe.prepared_case import prepare_case
from minifier.reduction.probe.verdicts import Judged
from minifier.reduction.probe_runner import ProbeRunner, note_empty_graph
from minifier.reduction.summary import by_verdict, with_forms
from minifier.torch_side.fx.inputs import RecordedValues

_MAX_PASSING_SECONDS = 60.0  # for a candidate that does not hang, when the failure is a hang
_SLOW_SECONDS = 1.0  # of a passing candidate, which is then asked twice
_LONGER_FACTOR = 3  # times the limit: what a hang gets that has not come to its stage
_BY_ITSELF = "the graph fails without the backend as well, so the fault is in the program, not in the backend:"


def check(runner: ProbeRunner) -> Case:
    """Probe the whole graph and the empty graph; set the timeout and the failure rate. A cheap or flaky graph is
    probed more often. Raises NoRepro, with the observed result, if the failure does not show again, and NothingToReduce
    if eager fails as well."""
    case, raising_op = _with_concrete_sizes(runner, runner.prepared.case), ""
    if not case.ignores_values:
        case, raising_op = _record_values(runner, case)
    _refuse_if_eager_fails_alike(runner, case)
    if case.failure.fingerprint.kind is Kind.TIMEOUT:
        calibrate_without_hang(runner, case)
    calls = case.calls
    case = _without_symbols(runner, flakiness.fewest_calls(runner, case))
    case, tries = _with_pauses(runner, case, calls, flakiness.tries_of(runner, case))
    if (other := flakiness.varies(runner, tries)) is not None:
        raise OtherMessage(f"calling the backend on the captured graph again shows other messages: {other.sentence}")
    flakiness.seek_forms(runner, tries)
    case = with_forms(runner, case)
    shown = [judged for judged in tries if judged.verdict is Verdict.SAME]
    if not shown:
        raise _not_again(runner.sought, tries[0], case)
    case = _with_native(runner, case, shown)
    flakiness.expect(runner, tries)
    if runner.repeats > 1:
        case = flakiness.in_one_call(runner, case)
    if case.failure.fingerprint.kind is not Kind.TIMEOUT:
        flakiness.set_timeout(runner, max(judged.seconds for judged in shown))
    flakiness.set_workers(runner, min(judged.seconds for judged in shown))  # the first may include the imports
    (empty,) = runner.probe([with_ops(case, ())])
    note_empty_graph(runner, empty)
    if empty.verdict is Verdict.SAME:  # one op is left all the same: Dynamo hands over no graph without ops
        case = replace(case, any_graph=True)
    if raising_op and not case.failure.hints:
        case = replace(case, failure=replace(case.failure, hints=((raising_op,),)))
    return case


def _with_pauses(runner: ProbeRunner, case: Case, calls: int, tries: list[Judged]) -> tuple[Case, list[Judged]]:
    """Return the Case with a pause between its calls, and new tries of it, if only that makes the failure certain.

    The pause that another starting point has given to the Case becomes shorter.
    """
    in_doubt = Verdict.PASS in {judged.verdict for judged in tries}
    if not in_doubt and not case.pauses:
        return case, tries
    is_hang, seconds = runner.sought.kind is Kind.TIMEOUT, runner.limits.seconds
    if is_hang:
        runner.allow(seconds + 2 * flakiness.longest_pause(case))
    shown = sum(judged.verdict is Verdict.SAME for judged in tries) if in_doubt else 0
    after = flakiness.with_pauses(runner, case, calls, shown / len(tries))
    if is_hang:
        runner.allow(seconds + sum(call.pause for call in (after or case).before))
    if after is None:
        return case, tries
    runner.doubtful = False
    return after, runner.probe([after])


def _with_native(runner: ProbeRunner, case: Case, shown: list[Judged]) -> Case:
    """Add native code's message to the sought failure, if all failing probes of the whole graph wrote the same.

    Of a damaged heap only the allocator tells, in one probe or another."""
    written = {judged.failure.fingerprint.native: judged.failure.written for judged in shown if judged.failure}
    native = DAMAGED_HEAP if DAMAGED_HEAP in written else next(iter(written), "")
    if not native or (len(written) > 1 and native != DAMAGED_HEAP):
        return case
    fingerprint = replace(case.failure.fingerprint, native=native)
    runner.seek(replace(case.failure, fingerprint=fingerprint, written=written[native]))
    return replace(case, failure=runner.prepared.case.failure)


def _with_concrete_sizes(runner: ProbeRunner, case: Case) -> Case:
    """Replace sizes and numbers that depend on tensor values by the values of an eager run. Their ops can then be cut
    off. The Case is unchanged if no size depends on values, or if eager fails."""
    unknown = [node.name for node in case.graph.ops if is_unbacked_value(node.value)]
    if not unknown:
        return case
    folder = runner.scratch / "sizes"
    folder.mkdir(exist_ok=True)
    (result,) = runner.run([lambda: run_eagerly(runner.prepared, case.graph, case.inputs, case.state, unknown, folder)])
    if result is None or result["status"] != "pass":
        return case
    values = RecordedValues(folder)
    nodes = tuple(_concrete(node, values) if is_unbacked_value(node.value) else node for node in case.graph.nodes)
    return replace(case, graph=replace(case.graph, nodes=nodes))


def _concrete(node: Node, values: RecordedValues) -> Node:
    layout, number = values.layout(node.name), values.number(node.name)
    if isinstance(node.value, TensorMeta) and layout is not None:
        return replace(node, value=replace(node.value, shape=layout[0], stride=layout[1]))
    if isinstance(node.value, Scalar) and number is not None:
        return replace(node, value=replace(node.value, value=number))
    return node


def _record_values(runner: ProbeRunner, case: Case) -> tuple[Case, str]:
    """Run the whole graph eagerly and keep every value: cuts of a run-time failure need them.
    Returns the op that raised, for a failure where only eager raises. A backend whose code ends the process where eager
    raises is at fault as well: the Case's failure then says so. Raises NothingToReduce if eager fails in any other
    case, and NoRepro if the process died or torch.compile failed while tracing the graph."""
    wanted = [node.name for node in case.graph.ops if isinstance(node.value, TensorMeta)]
    folder = runner.scratch
    (result,) = runner.run([lambda: run_eagerly(runner.prepared, case.graph, case.inputs, case.state, wanted, folder)])
    if result is None:
        raise NoRepro(
            "the graph could not be run without the backend to record its values"
            + (f":\n{runner.faults[-1]}" if runner.faults else " (the process died)")
        )
    has_drawn_inputs = case.backward and not any(isinstance(item.source, Stored) for item in case.tensor_inputs)
    if result["status"] != "pass":
        raised, _, _ = result["links"][-1]["message"].partition("\n")
        if has_drawn_inputs:  # the inputs of a backward pass are not known
            raise NoRepro(f"eager fails on inputs that were drawn: {raised}")
        if case.failure.fingerprint.kind in (Kind.SIGNAL, Kind.EXIT):
            case = replace(case, failure=_where_eager_raises(case.failure, result["links"][-1]))
        elif case.while_tracing:
            raise NoRepro(f"the graph that torch.compile has traced fails without it as well: {raised}")
        elif case.failure.fingerprint.message != Aspect.NO_EXCEPTION.value:
            raise FailsByItself(f"{_BY_ITSELF}\n{result['traceback']}")
    runner.prepared.record(folder)
    runner.unrecorded = result.get("left_out", 0)
    return case, str(result.get("at", ""))


def _refuse_if_eager_fails_alike(runner: ProbeRunner, case: Case) -> None:
    """Raise FailsByItself if the exception that compiling raises is raised in eager mode too: by the graph, which some
    backends run while they compile, or by the backward pass, which AOTAutograd traces."""
    failure = case.failure
    if failure.fingerprint.stage is not Stage.COMPILE or failure.fingerprint.kind is not Kind.EXCEPTION:
        return
    is_of_backward = RUNS_ENGINE[1] in failure.traceback
    if not (is_of_backward or case.ignores_values):
        return  # eager has run
    if is_of_backward:
        (result,) = runner.run([lambda: run_backward_eagerly(runner.prepared, case)])
    else:
        job = partial(run_eagerly, runner.prepared, case.graph, case.inputs, case.state, (), runner.scratch)
        (result,) = runner.run([job])
    if result is None or result["status"] == "pass":
        return
    raised = result["links"][-1]
    if raised["type"].removeprefix("builtins.") != failure.type:
        return
    if is_of_backward:
        raise FailsByItself(
            "the graph's backward pass fails without the backend as well, so the fault is in the program. AOTAutograd "
            f"traces it when it compiles the graph, also for a script that never runs it.\n{result['traceback']}"
        )
    messages = normalise(raised["message"]), normalise(failure.message)
    if messages[0] == messages[1] or (all(messages) and share_words(*messages)):  # a compiler adds words
        raise FailsByItself(f"{_BY_ITSELF}\n{result['traceback']}")


def _where_eager_raises(failure: Failure, raised: Link) -> Failure:
    """Return the failure of a process that died, with the exception that eager raises instead."""
    exception = raised["type"].removeprefix("builtins.")
    sentence = f"eager raises {exception}; the compiled code ends the process"
    difference = Difference(Aspect.NO_EXCEPTION, "the call", sentence, exception=exception)
    return replace(failure, message=f"{failure.message}, where eager raises {exception}", differences=(difference,))


def calibrate_without_hang(runner: ProbeRunner, case: Case) -> None:
    """Set the timeout from candidates that pass: every probe that hangs waits that long.

    What takes long is asked twice: the first that compiles anything may import half of the compiler. A run that ends at
    a stage ahead of the one that hangs gets more time: a backward pass comes after a forward pass that is compiled.
    """
    longest = min(_MAX_PASSING_SECONDS, runner.settings.timeout or _MAX_PASSING_SECONDS)
    runner.allow(longest)
    groups, seconds = atoms(case.graph), [0.0]
    for names in ((), *groups[:1], *groups[-1:]):
        candidate = with_ops(case, names)
        (judged,) = runner.probe([candidate])
        if judged.verdict is Verdict.PASS:
            (again,) = runner.probe([candidate]) if judged.seconds > _SLOW_SECONDS else (judged,)
            seconds.append(min(each.seconds for each in (judged, again) if each.verdict is Verdict.PASS))
    flakiness.set_timeout(runner, max(seconds))
    while runner.limits.seconds < longest and _ends_ahead(runner, case):
        runner.allow(min(longest, _LONGER_FACTOR * runner.limits.seconds))


def _ends_ahead(runner: ProbeRunner, case: Case) -> bool:
    """Whether a probe is ended at a stage ahead of the one that hangs."""
    stages = list(Stage)
    ahead = stages[: stages.index(runner.sought.stage)]
    if Stage.COMPILE not in ahead:
        return False
    (judged,) = runner.probe([case])
    seen = judged.failure.fingerprint if judged.failure is not None else runner.sought
    return seen.kind is Kind.TIMEOUT and seen.stage in ahead


def _without_symbols(runner: ProbeRunner, case: Case) -> Case:
    """Make symbolic sizes concrete if the failure stays, as in most cases: every probe is cheaper then."""
    simpler = [specialised(case)] if specialised(case) != case else []
    simpler += [without_other_inputs(case)] if case.has_other_inputs else []
    return next((each for each in simpler if runner.probe([each])[0].verdict is Verdict.SAME), case)


def _not_again(sought: Fingerprint, judged: Judged, case: Case) -> MinifyError:
    head = "calling the backend on the captured graph again does not show the failure: "
    if judged.fault:
        return MinifyError(f"a probe failed by itself:\n{judged.fault}")
    if judged.failure is not None:
        kind = OtherMessage if raised_alike(sought, judged.failure.fingerprint) else NoRepro
        differs = unlike(sought, judged.failure), advice(sought, judged.failure), _reads(case.backend)
        return kind("\n".join(filter(None, (f"{head}it showed {judged.failure.sentence}", *differs))))
    return NoRepro(
        head + "the backend took it each time. The failure may depend on earlier calls, on what Dynamo hands over "
        "beside the graph, or on other state of the script."
        + (f" This state could not be saved: {'; '.join(case.state.skipped)}." if case.state.skipped else "")
        + (f"\n{reads}" if (reads := _reads(case.backend)) else "")
    )


def _reads(backend: BackendReference) -> str:
    """Say which variables and files the backend read in the script's process; "" if none is known."""
    kinds = (("environment variable", backend.variables), ("file", backend.files))
    read = [f"the {kind}{'s' if len(names) > 1 else ''} {', '.join(names)}" for kind, names in kinds if names]
    return f"In the script's process, imported and compiling, the backend read {' and '.join(read)}." if read else ""


@dataclass(frozen=True, slots=True)
class Shown:
    """Whether a Case shows its failure in a probe; the number of probes by verdict."""

    holds: bool
    probes: dict[str, int]


def probe_once(case: Case, name: str, settings: Settings, show: Callable[[Progress], None]) -> Shown:
    """Probe a Case that is shown by this name. The probe imports the backend itself, after what the Case has ahead."""
    show(Progress(Phase.REDUCING, step=name))
    case = case if settings.measure == Tolerance() else replace(case, measure=settings.measure)
    prepared = prepare_case(case, imports_in_child=True)
    with tempfile.TemporaryDirectory(prefix="minify-") as work:
        runner = ProbeRunner(prepared, Path(work), settings)
        try:
            if case.failure.fingerprint.kind is Kind.TIMEOUT:
                calibrate_without_hang(runner, case)
            (judged,) = runner.probe([case])
        finally:
            runner.journal.close(finished=True)
            shutil.rmtree(runner.scratch, ignore_errors=True)
    return Shown(judged.verdict is Verdict.SAME, by_verdict(runner.counts))


_HANG_FACTOR = 3  # times the timeout: how long the final hang must last,
_MIN_HANG_SECONDS = 20.0  # and at the least: a repro gets as long
_MAX_ROUNDS = 3  # of a search that is repeated with a better rate


def confirmed(
    runner: ProbeRunner, budget: search.Budget, reduced: Case, result: search.Result
) -> tuple[Case, search.Result]:
    """Probe the reduced graph several more times; continue the search if the failure is rarer than assumed.
    The search may then have kept ops that the failure does not need. If a larger graph of the search shows the failure
    for certain, the search has removed ops that this takes, or time that these ops took: it goes on from a Case that is
    certain."""
    for _ in range(_MAX_ROUNDS):
        if not result.one_minimal:
            break
        runner.phase, was_certain = "check", runner.repeats == 1 and not runner.confirmations
        reduced = flakiness.in_one_call(runner, reduced)
        if not flakiness.misjudged(runner, reduced):
            break
        certain = flakiness.certain_again(runner, reduced, runner.larger(reduced)) if was_certain else None
        reduced, result = reduce_ops(runner, certain or reduced, budget, anew=True)
    return reduced, result


def confirmed_hang(
    runner: ProbeRunner, budget: search.Budget, reduced: Case, result: search.Result
) -> tuple[Case, search.Result]:
    """Wait much longer for the reduced hang. One that ends was only slow: the smallest graph of the search that does
    not end takes its place, and the search goes on from there with that longer timeout. Without time for that, it is
    the smallest that was waited for, or the whole graph."""
    timeout, is_proved = runner.limits.seconds, result.ended is search.Ending.PROVED
    longer = max(_MIN_HANG_SECONDS, _HANG_FACTOR * timeout)
    runner.phase = "check"
    runner.allow(longer)

    def lasts(case: Case) -> bool:
        return runner.settings.seconds_left > longer and runner.probe([case])[0].verdict is Verdict.SAME

    if result.ended is search.Ending.INTERRUPTED or runner.probe([reduced])[0].verdict is Verdict.SAME:
        runner.allow(timeout)
    else:
        larger = runner.larger(reduced) or [reduced]
        place = flakiness.last_shown(larger, lasts)
        if place < 0 and is_proved:
            raise NoRepro("the backend takes long, but it ends where it gets more time")
        reduced = larger[max(place, 0)]
        if is_proved:
            reduced, result = reduce_ops(runner, reduced, budget, anew=True)
    # The repro reports a hang after a round number of seconds, well above a passing run.
    return replace(reduced, patience=10.0 * math.ceil(timeout / 10)), result
