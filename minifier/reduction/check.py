"""The check phase: how often does the captured failure show when the graph goes to the backend again?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from minifier.case import Case, Graph, Node, Ref, Scalar, TensorMeta
from minifier.case.compiled_sizes import compiled_as_called, inputs_at_compilation
from minifier.case.encode import unpack
from minifier.case.ops import atoms, with_ops
from minifier.case.symbolic_sizes import is_unbacked_value, specialised
from minifier.errors import MinifyError, NoRepro, NothingToReduce, OtherMessage
from minifier.failure import Aspect, Difference, Failure, Fingerprint, Kind, Stage, Verdict, same
from minifier.failure.frames import Link
from minifier.failure.from_comparison import failure_of_differences
from minifier.failure.likeness import is_alike, raised_alike
from minifier.fx.recorded_values import RecordedValues
from minifier.probe.evaluate import evaluate, run_eagerly
from minifier.probe.verdicts import Judged
from minifier.reduction.flakiness import fewest_calls, in_one_call, seek_forms, tries_of
from minifier.reduction.guilty_ops import innocent_ops
from minifier.reduction.probe_runner import ProbeRunner

_MAX_PASSING_SECONDS = 60.0  # for a candidate that does not hang, when the failure is a hang
_MAX_OUTPUT_BYTES = 2**29  # all values of the graph together; several copies are in memory at once
_MAX_HINTS = 3
_MAX_ITEM_BYTES = 8


def check(runner: ProbeRunner) -> Case:
    """Probe the whole graph and the empty graph; set the timeout and the failure rate. A cheap or flaky graph is
    probed more often. Raises NoRepro, with the observed result, if the failure does not show again, and NothingToReduce
    if eager fails as well."""
    case, raising_op = _with_concrete_sizes(runner, runner.bench.case), ""
    if not case.ignores_values:
        case, raising_op = _record_values(runner, case)
    if case.failure.fingerprint.kind is Kind.TIMEOUT:
        _calibrate_without_hang(runner, case)
    case = _without_symbols(runner, fewest_calls(runner, case))
    tries = tries_of(runner, case)
    seek_forms(runner, tries)
    case = runner.with_forms(case)
    shown = [judged for judged in tries if judged.verdict is Verdict.SAME]
    if not shown:
        raise _not_again(runner.sought, tries[0], case.state.skipped)
    case = _with_native(runner, case, shown)
    runner.expect(len(shown), len(tries))
    if runner.repeats > 1:
        case = in_one_call(runner, case)
    if case.failure.fingerprint.kind is not Kind.TIMEOUT:
        runner.calibrate(max(judged.seconds for judged in shown))
    runner.spread(min(judged.seconds for judged in shown))  # the first may include the imports
    (empty,) = runner.probe([with_ops(case, ())])
    if empty.verdict is Verdict.SAME:  # one op is left all the same: Dynamo hands over no graph without ops
        case = replace(case, any_graph=True)
    if case.failure.fingerprint.stage is Stage.COMPARE and not case.failure.hints:
        hints = ((raising_op,),) if raising_op else begins_at(runner, case)
        case = replace(case, failure=replace(case.failure, hints=hints))
    return case


def _with_native(runner: ProbeRunner, case: Case, shown: list[Judged]) -> Case:
    """Add native code's message to the sought failure, if all failing probes of the whole graph wrote the same."""
    failures = [judged.failure for judged in shown if judged.failure is not None]
    natives = {failure.fingerprint.native for failure in failures}
    if len(natives) != 1 or "" in natives:
        return case
    fingerprint = replace(case.failure.fingerprint, native=natives.pop())
    runner.seek(replace(case.failure, fingerprint=fingerprint, written=failures[0].written))
    return replace(case, failure=runner.bench.case.failure)


def start(runner: ProbeRunner) -> Case:
    """Return the Case to reduce: the checked whole graph, or a smaller graph that is known to fail.
    Hints may already name the guilty ops of a backward pass. They suffice if they fail alone."""
    case = runner.bench.case
    if case.backward and case.failure.fingerprint.stage.compiles:
        for names in case.failure.hints:
            accused = with_ops(case, names)
            (judged,) = runner.probe([accused])
            if judged.verdict is Verdict.SAME:
                runner.calibrate(judged.seconds)
                runner.spread(judged.seconds)
                return accused
    return check(runner)


def begins_at(runner: ProbeRunner, case: Case) -> tuple[tuple[str, ...], ...]:
    """Return hints for the search: the first ops whose compiled value differs from eager's.
    An extra run returns every value as an output. That graph is compiled differently (nothing can be fused away), so
    the hints are guesses. There are none if all values together are too large.
    Wrong values that the graph's own results do not depend on are no hints, nor differences of later candidates."""
    ops = [(node, node.value.elements) for node in case.graph.ops if isinstance(node.value, TensorMeta)]
    if sum(elements for _, elements in ops) * _MAX_ITEM_BYTES > _MAX_OUTPUT_BYTES:
        return ()
    names = [node.name for node, _ in ops]
    candidate = replace(case, graph=_returning(case.graph, names), backward=False)
    (result,) = runner.run([lambda: evaluate(runner.bench, candidate, Stage.COMPARE)])
    differences = unpack(tuple[Difference, ...], (result or {}).get("differences", []))
    by_output: dict[int, list[Difference]] = {}
    for each in differences:
        if m := re.match(r"output (\d+)", each.where):
            by_output.setdefault(int(m.group(1)), []).append(each)
    # Ops that are only computed in another way do not make the whole result wrong: they come last.
    outputs = sorted(by_output, key=lambda output: (not _is_alike(case, by_output[output]), output))
    suspects = [names[output] for output in outputs if output < len(names)]
    runner.bench.innocent = innocent_ops(runner, case, suspects)
    return tuple((name,) for name in suspects if name not in runner.bench.innocent)[:_MAX_HINTS]


def _is_alike(case: Case, differences: Sequence[Difference]) -> bool:
    failure = failure_of_differences(differences, case.failure.fingerprint)
    return same(case.failure.fingerprint, failure.fingerprint) and is_alike(case.failure, failure)


def _returning(graph: Graph, names: list[str]) -> Graph:
    output = replace(graph.output, args=(tuple(Ref(name) for name in names),))
    return replace(graph, nodes=(*graph.nodes[:-1], output))


def _with_concrete_sizes(runner: ProbeRunner, case: Case) -> Case:
    """Replace sizes and numbers that depend on tensor values by the values of an eager run. Their ops can then be cut
    off. The Case is unchanged if no size depends on values, or if eager fails."""
    unknown = [node.name for node in case.graph.ops if is_unbacked_value(node.value)]
    if not unknown:
        return case
    folder = runner.scratch / "sizes"
    folder.mkdir(exist_ok=True)
    (result,) = runner.run([lambda: run_eagerly(runner.bench, case.graph, case.inputs, case.state, unknown, folder)])
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
    (result,) = runner.run([lambda: run_eagerly(runner.bench, case.graph, case.inputs, case.state, wanted, folder)])
    if result is None:
        raise NoRepro(
            "the graph could not be run without the backend to record its values"
            + (f":\n{runner.faults[-1]}" if runner.faults else " (the process died)")
        )
    only_eager_raises = case.failure.fingerprint.message == Aspect.NO_EXCEPTION.value
    if result["status"] != "pass" and case.failure.fingerprint.kind in (Kind.SIGNAL, Kind.EXIT):
        case = replace(case, failure=_where_eager_raises(case.failure, result["links"][-1]))
    elif result["status"] != "pass" and case.while_tracing:
        raised, _, _ = result["links"][-1]["message"].partition("\n")
        raise NoRepro(f"the graph that torch.compile has traced fails without it as well: {raised}")
    elif result["status"] != "pass" and not only_eager_raises:
        raise NothingToReduce(
            "the graph fails without the backend as well, so the fault is in the program, not in the backend:\n"
            f"{result['traceback']}"
        )
    runner.bench.record(folder)
    return case, str(result.get("at", ""))


def _where_eager_raises(failure: Failure, raised: Link) -> Failure:
    """Return the failure of a process that died, with the exception that eager raises instead."""
    exception = f"eager raises {raised['type'].removeprefix('builtins.')}"
    difference = Difference(Aspect.NO_EXCEPTION, "the call", f"{exception}; the compiled code ends the process")
    return replace(failure, message=f"{failure.message}, where {exception}", differences=(difference,))


def _calibrate_without_hang(runner: ProbeRunner, case: Case) -> None:
    """Set the timeout from candidates that pass: every probe that hangs waits that long."""
    runner.allow(min(_MAX_PASSING_SECONDS, runner.timeout or _MAX_PASSING_SECONDS))
    groups = atoms(case.graph)
    seconds = 0.0
    for names in ((), *groups[:1], *groups[-1:]):
        (judged,) = runner.probe([with_ops(case, names)])
        if judged.verdict is Verdict.PASS:
            seconds = max(seconds, judged.seconds)
    runner.calibrate(seconds)


def _without_symbols(runner: ProbeRunner, case: Case) -> Case:
    """Make symbolic sizes concrete if the failure stays, as in most cases: every probe is cheaper then."""
    simpler = [specialised(case)] if specialised(case) != case else []
    simpler += [compiled_as_called(case)] if inputs_at_compilation(case) else []
    return next((each for each in simpler if runner.probe([each])[0].verdict is Verdict.SAME), case)


def _not_again(sought: Fingerprint, judged: Judged, skipped: Sequence[str]) -> MinifyError:
    head = "calling the backend on the captured graph again does not show the failure: "
    if judged.fault:
        return MinifyError(f"a probe failed by itself:\n{judged.fault}")
    if judged.failure is not None:
        kind = OtherMessage if raised_alike(sought, judged.failure.fingerprint) else NoRepro
        return kind(head + f"it showed {judged.failure.sentence}\n{judged.failure.traceback}")
    return NoRepro(
        head + "the backend took it each time. The failure may depend on earlier calls, on what Dynamo hands over "
        "beside the graph, or on other state of the script."
        + (f" This state could not be saved: {'; '.join(skipped)}." if skipped else "")
    )
