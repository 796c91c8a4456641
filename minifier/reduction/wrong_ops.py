"""For the report on a wrong result: the ops whose compiled result is not eager's, each compiled alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from minifier import compare
from minifier.case import Case, Graph
from minifier.case.ops import with_ops
from minifier.fx.build import build_graph
from minifier.fx.recorded_values import make_inputs
from minifier.probe.prepared_case import PreparedCase
from minifier.probe.set_state import in_modes, set_globals
from minifier.reduction.probe_runner import ProbeRunner
from minifier.torch_private import as_dynamo_calls, tame_inductor


def find_wrong_ops(lab: ProbeRunner, whole: Case, minimal: Case, seconds: float) -> tuple[tuple[str, str], ...]:
    """(op, sentence) of each op found within so many seconds, on the values it had in the whole graph; those of the
    minimal graph come first."""
    blamed = [node.name for node in minimal.graph.ops]
    kinds = {node.target for node in minimal.graph.ops}
    ops = [node for node in whole.graph.ops if node.name not in blamed]
    order = [*blamed, *(n.name for n in ops if n.target in kinds), *(n.name for n in ops if n.target not in kinds)]
    (result,) = lab.run([lambda: _look(lab.bench, whole, order, seconds)])
    if result is None:  # a backend that kills the process on some op: there is no table then
        return ()
    place = {node.name: i for i, node in enumerate(whole.graph.ops)}
    return tuple(sorted(((op, said) for op, said in result["parting"]), key=lambda pair: place[pair[0]]))


def _look(bench: PreparedCase, whole: Case, order: Sequence[str], seconds: float) -> dict[str, Any]:
    set_globals(whole.state)
    tame_inductor()
    compiler = bench.compiler(whole.backend)

    def compile_alone(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        with as_dynamo_calls(bench.fakes):
            compiled: Callable[..., Any] = compiler(module, list(inputs))
        return compiled

    def inputs_of(alone: Graph) -> list[Any]:
        case = with_ops(whole, [node.name for node in alone.ops])
        return make_inputs(case.inputs, bench.tensors, bench.recorded)

    with in_modes(whole.state):
        found = compare.divergent_ops(
            whole.graph,
            order,
            inputs_of,
            lambda graph: build_graph(graph, bench.tensors, bench.example),
            compile_alone,
            seconds,
            whole.measure,
        )
    return {"status": "pass", "parting": [[op, difference.sentence] for op, difference in found]}
