"""Dynamo's failures during the tracing of an op."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch._dynamo.exc import RestartAnalysis, SkipFrame
from torch._dynamo.output_graph import FakeRootModule, OutputGraph
from torch._dynamo.symbolic_convert import InstructionTranslator, InstructionTranslatorBase


@dataclass(frozen=True, slots=True)
class TracedGraph:
    """Dynamo's trace of a frame: the graph up to its last op, and the graph's inputs."""

    module: torch.fx.GraphModule
    inputs: list[Any]


FindGraph = Callable[[], "TracedGraph | None"]


def observe_tracing(observe: Callable[[Any, FindGraph], None]) -> None:
    """Call `observe(compiler_fn, find_graph)` when Dynamo raises an exception while tracing a frame of this process.

    `find_graph()` returns the graph whose only output is the op at which Dynamo failed; None if no op failed. The
    exception propagates unchanged. `observe` must not raise.
    """
    original = InstructionTranslatorBase.run

    def run(self: Any) -> None:
        if isinstance(self, InstructionTranslator):
            _before_cleanup(self.output, observe)
        original(self)

    InstructionTranslatorBase.run = run  # type: ignore[method-assign]


def _before_cleanup(output: OutputGraph, observe: Callable[[Any, FindGraph], None]) -> None:
    """Call `observe` after a failed trace, before Dynamo's cleanup removes the graph's inputs."""
    handled = sys.exc_info()[1]  # the script may compile within `except`
    cleanup = output.cleanup

    def observed_cleanup() -> None:
        del output.cleanup
        error = sys.exc_info()[1]
        if error is not None and error is not handled and not isinstance(error, (RestartAnalysis, SkipFrame)):
            observe(output.compiler_fn, lambda: _up_to_failing_op(output))
        cleanup()

    output.cleanup = observed_cleanup  # type: ignore[method-assign]


def _up_to_failing_op(output: OutputGraph) -> TracedGraph | None:
    """Return a copy of the traced graph; None if its last node is not an op, or already has an example value."""
    nodes = list(output.graph.nodes)
    if not nodes or not nodes[-1].op.startswith("call_") or "example_value" in nodes[-1].meta:
        return None
    graph = torch.fx.Graph()
    copies: dict[torch.fx.Node, torch.fx.Node] = {}
    graph.graph_copy(output.graph, copies)
    graph.output((copies[nodes[-1]],))
    return TracedGraph(torch.fx.GraphModule(FakeRootModule(output.nn_modules), graph), output.example_inputs())
