"""Compiles each op alone, to list in the report the ops whose result differs from eager's."""

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


def find_wrong_ops(runner: ProbeRunner, whole: Case, minimal: Case, seconds: float) -> tuple[tuple[str, str], ...]:
    """Return (op, sentence) for each wrong op found within this time, on its inputs in the whole graph.
    Ops of the minimal graph are tried first, then ops of their kinds."""
    blamed = [node.name for node in minimal.graph.ops]
    kinds = {node.target for node in minimal.graph.ops}
    ops = [node for node in whole.graph.ops if node.name not in blamed]
    order = [*blamed, *(n.name for n in ops if n.target in kinds), *(n.name for n in ops if n.target not in kinds)]
    (result,) = runner.run([lambda: _divergent_ops(runner.bench, whole, order, seconds)])
    if result is None:  # the backend killed the process: the report has no table
        return ()
    place = {node.name: i for i, node in enumerate(whole.graph.ops)}
    return tuple(sorted(((op, sentence) for op, sentence in result["parting"]), key=lambda pair: place[pair[0]]))


def _divergent_ops(bench: PreparedCase, whole: Case, order: Sequence[str], seconds: float) -> dict[str, Any]:
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
        differences = compare.divergent_ops(
            whole.graph,
            order,
            inputs_of,
            lambda graph: build_graph(graph, bench.tensors, bench.example),
            compile_alone,
            seconds,
            whole.measure,
        )
    return {"status": "pass", "parting": [[op, difference.sentence] for op, difference in differences]}
