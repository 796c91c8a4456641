"""Dynamo's failures during the tracing of an op."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch._dynamo.exc import RestartAnalysis, SkipFrame
from torch._dynamo.output_graph import FakeRootModule, OutputGraph
from torch.fx.node import map_arg

from minifier.interfaces.declared import TRACING, stands_on

_RUN = stands_on("torch._dynamo.symbolic_convert:InstructionTranslator.run", loses=TRACING, parameters=("self",))
for _name in ("cleanup", "example_inputs", "graph", "nn_modules"):
    stands_on(f"torch._dynamo.output_graph:OutputGraph.{_name}", loses=TRACING)
_RUN_NODE = stands_on("torch._dynamo.utils:run_node", loses=TRACING, parameters=("node",))
_FAILING_OP = "_minify_failing_op"  # of an exception: the op that raised it


@dataclass(frozen=True, slots=True)
class TracedGraph:
    """Dynamo's trace of a frame: the graph up to its last op, and the graph's inputs."""

    module: torch.fx.GraphModule
    inputs: list[Any]


@dataclass(frozen=True, slots=True)
class _Op:
    """A node, and its arguments before torch erased the node: an erased node has none."""

    node: torch.fx.Node
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


FindGraph = Callable[[], "TracedGraph | None"]


def observe_tracing(observe: Callable[[Any, FindGraph], None]) -> None:
    """Call `observe(compiler_fn, find_graph)` when Dynamo raises an exception while tracing a frame of this process.

    `find_graph()` returns the graph whose only output is the op at which Dynamo failed; None if no op failed. The
    exception propagates unchanged. `observe` must not raise.
    """

    def run_node(op: _Op, go_on: Callable[[], Any]) -> Any:
        try:
            return go_on()
        except BaseException as error:
            vars(error).setdefault(_FAILING_OP, op)
            raise

    _RUN.replace(lambda call: _before_cleanup(call["self"].output, observe), lambda _, go_on: go_on())
    _RUN_NODE.replace(lambda call: _Op(call["node"], call["node"].args, call["node"].kwargs), run_node)


def _before_cleanup(output: OutputGraph, observe: Callable[[Any, FindGraph], None]) -> None:
    """Call `observe` after a failed trace, before Dynamo's cleanup removes the graph's inputs."""
    handled = sys.exc_info()[1]  # the script may compile within `except`
    cleanup, compiler = output.cleanup, output.compiler_fn

    def observed_cleanup(*args: Any, **kwargs: Any) -> Any:
        vars(output).pop("cleanup", None)
        error = sys.exc_info()[1]
        if error is not None and error is not handled and not isinstance(error, (RestartAnalysis, SkipFrame)):
            observe(compiler, lambda: _up_to_failing_op(output, error))
        return cleanup(*args, **kwargs)

    vars(output)["cleanup"] = observed_cleanup


def _up_to_failing_op(output: OutputGraph, error: BaseException) -> TracedGraph | None:
    """Return a copy of the traced graph, with the op at which Dynamo failed as its last node; None if no op failed."""
    graph = torch.fx.Graph()
    copies: dict[torch.fx.Node, torch.fx.Node] = {}
    graph.graph_copy(output.graph, copies)
    last = _erased_op(output, error, graph, copies) or _op_without_value(output, copies)
    if last is None:
        return None
    graph.output((last,))
    return TracedGraph(torch.fx.GraphModule(FakeRootModule(output.nn_modules), graph), output.example_inputs())


def _op_without_value(output: OutputGraph, copies: dict[torch.fx.Node, torch.fx.Node]) -> torch.fx.Node | None:
    """Return the copy of the graph's last node if it is an op without an example value."""
    nodes = list(output.graph.nodes)
    if not nodes or not nodes[-1].op.startswith("call_") or "example_value" in nodes[-1].meta:
        return None
    return copies[nodes[-1]]


def _erased_op(
    output: OutputGraph, error: BaseException, graph: torch.fx.Graph, copies: dict[torch.fx.Node, torch.fx.Node]
) -> torch.fx.Node | None:
    """Append a copy of the op that raised `error`, and return it; None if the op was not erased from Dynamo's graph.

    torch 2.14 erases it: the script may catch the exception.
    """
    op = next((found for link in _chain(error) if (found := vars(link).get(_FAILING_OP))), None)
    if op is None or op.node.graph is not output.graph or op.node in copies:
        return None
    copy = graph.node_copy(op.node)
    copy.args, copy.kwargs = map_arg((op.args, op.kwargs), copies.__getitem__)
    return copy


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception, and those during whose handling it was raised."""
    link: BaseException | None = error
    while link is not None:
        yield link
        link = link.__cause__ or link.__context__
