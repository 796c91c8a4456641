"""Compiles each op alone, to list in the report the ops whose result differs from eager's."""

from __future__ import annotations

import itertools
import time
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
        with as_dynamo_calls(prepared.fakes):
            compiled: Callable[..., Any] = compiler(module, list(inputs))
        return compiled

    def inputs_of(alone: Graph) -> list[Any]:
        case = with_ops(whole, [node.name for node in alone.ops])
        return make_inputs(case.inputs, prepared.tensors, prepared.recorded)

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
