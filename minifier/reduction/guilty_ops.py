"""Finds the op that makes the results of the whole graph wrong, and the ops that are wrong alone."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any

import torch

from minifier import search
from minifier.data.case import Case, Graph
from minifier.data.case.ops import atoms, with_ops
from minifier.data.failure import Stage, Verdict
from minifier.reduction.op_search import calls_of, parts_of, reduce_ops
from minifier.reduction.probe.prepared_case import PreparedCase, in_modes, set_globals
from minifier.reduction.probe_runner import Atom, ProbeRunner
from minifier.torch_side import compare
from minifier.torch_side.fx.graphs import build_graph
from minifier.torch_side.fx.inputs import make_inputs
from minifier.torch_side.torch_private.dynamo import outputs_dynamo_takes
from minifier.torch_side.torch_private.graphs import as_dynamo_calls
from minifier.torch_side.torch_private.inductor import tame_inductor


class Guilt(Enum):
    """Whether the op that makes the whole graph's results wrong is in the reduced graph."""

    PROVED = "proved"
    REPEATED = "repeated"
    NONE = "none"


_SENTENCES = {
    Guilt.PROVED: "with eager's values up to {op}, the failure of the whole graph is gone",
    Guilt.REPEATED: "with eager's values up to another call, of {op}, the failure of the whole graph is gone",
    Guilt.NONE: "the reduced graph's ops are wrong, but the results of the whole graph for {op}",
}


def _functions(case: Case, group: Atom) -> list[str]:
    return [case.graph.node(name).target for name in group]


def guilty_op(runner: ProbeRunner, case: Case, budget: search.Budget, reduced: Case) -> Atom:
    """Return the last atom that makes the whole graph's results wrong; () if that is not known.

    With eager's values for all before it the failure shows, and with eager's values for it as well no more, even if
    results differ in other ways. Found by bisection. The last atom like the first one of the reduced graph is tried
    first, which takes two probes.
    """
    groups, calls, build = atoms(case.graph), calls_of(case), parts_of(case)
    own = next(group for group in groups if reduced.graph.ops[0].name in group)
    likely = max(at for at, group in enumerate(groups) if _functions(case, group) == _functions(case, own))
    wrong, right, is_gone = 0, len(groups), True  # the results from these atoms on; what is known of the second
    while right - wrong > 1:
        if budget.ending(runner.total):
            return ()
        at = next((each for each in (likely + 1, likely) if wrong < each < right), (wrong + right) // 2)
        (judged,) = runner.probe([build([*calls, *itertools.chain.from_iterable(groups[at:])])])
        if judged.verdict is Verdict.SAME:
            wrong = at
        else:
            is_wrong = judged.failure is not None and judged.failure.fingerprint.stage is Stage.COMPARE
            right, is_gone = at, judged.verdict is Verdict.PASS or is_wrong
    return groups[wrong] if is_gone else ()


def at_guilty_op(
    runner: ProbeRunner, case: Case, budget: search.Budget, reduced: Case, result: search.Result
) -> tuple[Case, search.Result, Atom]:
    """Find the guilty op of a wrong result. If the reduced graph is of other ops, search again from that op on."""
    if not result.one_minimal:
        return reduced, result, ()
    runner.phase = "guilty"
    guilty = guilty_op(runner, case, budget, reduced)
    if not guilty or guilt_of(case, guilty, reduced) is not Guilt.NONE:
        return reduced, result, guilty
    groups = atoms(case.graph)
    hinted = replace(case, failure=replace(case.failure, hints=(guilty,)))
    again, its_result = reduce_ops(runner, hinted, budget, groups=groups[groups.index(guilty) :])
    is_better = its_result.one_minimal and guilt_of(case, guilty, again) is not Guilt.NONE
    return (replace(again, failure=case.failure), its_result, guilty) if is_better else (reduced, result, guilty)


def guilt_of(case: Case, guilty: Atom, reduced: Case) -> Guilt:
    """Return whether the reduced graph has the guilty op, or the same op of another place."""
    kept = {node.name for node in reduced.graph.ops}
    if not kept.isdisjoint(guilty):
        return Guilt.PROVED
    alike = (group for group in atoms(case.graph) if _functions(case, group) == _functions(case, guilty))
    return Guilt.NONE if all(map(kept.isdisjoint, alike)) else Guilt.REPEATED


def said_of_guilt(case: Case, guilty: Atom, reduced: Case) -> str:
    """Return the sentence for the user. It names the op by function and place: the repro may have no name for it."""
    nodes = [case.graph.node(name) for name in guilty]
    node = next((each for each in reversed(nodes) if each.target != "operator.getitem"), nodes[0])
    op = f"{node.short_target} in {node.place}" if node.place else node.short_target
    return _SENTENCES[guilt_of(case, guilty, reduced)].format(op=op)


def find_wrong_ops(runner: ProbeRunner, whole: Case, minimal: Case, seconds: float) -> tuple[tuple[str, str], ...]:
    """Return (op, sentence) for each wrong op found within this time, on its inputs in the whole graph.
    Ops of the minimal graph are tried first, then ops of their kinds."""
    blamed = [node.name for node in minimal.graph.ops]
    kinds = {node.target for node in minimal.graph.ops}
    ops = [node for node in whole.graph.ops if node.name not in blamed]
    order = [*blamed, *(n.name for n in ops if n.target in kinds), *(n.name for n in ops if n.target not in kinds)]
    (result,) = runner.run([lambda: _divergent_ops(runner.prepared, whole, order, seconds)])
    if result is None:  # the backend killed the process: the report has no table
        return ()
    place = {node.name: i for i, node in enumerate(whole.graph.ops)}
    return tuple(sorted(((op, sentence) for op, sentence in result["divergent"]), key=lambda pair: place[pair[0]]))


def _divergent_ops(prepared: PreparedCase, whole: Case, order: Sequence[str], seconds: float) -> dict[str, Any]:
    set_globals(whole.state)
    tame_inductor()
    compiler = prepared.compiler(whole.backend)

    def compile_alone(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        outputs = module.graph.output_node().args
        with as_dynamo_calls(prepared.fakes):
            compiled = compiler(module, list(inputs))
        return lambda *args: outputs_dynamo_takes(compiled(*args), *outputs)

    def inputs_of(alone: Graph) -> list[Any]:
        inputs = {item.name: item for item in with_ops(whole, [node.name for node in alone.ops]).inputs}
        read = [inputs[node.name] for node in alone.nodes if node.op == "placeholder"]  # without symbols of sizes
        return make_inputs(read, prepared.tensors, prepared.recorded)

    deadline = time.monotonic() + seconds
    with in_modes(whole.state):
        differences = compare.divergent_ops(
            whole.graph,
            itertools.takewhile(lambda _: time.monotonic() < deadline, order),
            inputs_of,
            lambda graph: build_graph(graph, prepared.tensors, prepared.example),
            compile_alone,
            whole.measure,
        )
    return {"status": "pass", "divergent": [[op, difference.sentence] for op, difference in differences]}
