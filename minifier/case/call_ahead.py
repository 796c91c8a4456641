"""Build calls ahead of the failing call from Cases, and tell which of them call the failing function."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from minifier.case.case import CallAhead, Case
from minifier.case.graph import Graph
from minifier.case.inputs import Drawn, Input, TensorInput


def call_ahead(case: Case, like: CallAhead | None = None) -> CallAhead:
    """Return a call ahead of the Case's graph, with ones for floating point tensors and zeros for other tensors.

    `like` gives the number of calls and the other settings. The default is a single call.
    """
    inputs = tuple(map(_drawn, case.inputs))
    return CallAhead(case.graph, inputs) if like is None else replace(like, graph=case.graph, inputs=inputs)


def _drawn(item: Input) -> Input:
    if not isinstance(item, TensorInput):
        return item
    how = "ones" if item.meta.dtype.startswith(("float", "bfloat", "complex")) else "zeros"
    return replace(item, meta=replace(item.meta, storage=None, offset=0), source=Drawn(how))


def shares_function(case: Case, call: CallAhead) -> bool:
    """Tell whether the call ahead calls the Case's own function, with layouts of inputs that no other call has."""
    if call.backward or _text(call.graph) != _text(case.graph):
        return False
    layouts = [_layouts(each.inputs) for each in case.ahead if _text(each.graph) == _text(case.graph)]
    return layouts.count(_layouts(call.inputs)) == 1 and _layouts(call.inputs) != _layouts(case.inputs)


def is_alike(one: Graph, other: Graph) -> bool:
    """Tell whether both graphs have the same nodes, apart from the arguments."""
    return [(node.name, node.target) for node in one.nodes] == [(node.name, node.target) for node in other.nodes]


def _text(graph: Graph) -> list[tuple[object, ...]]:
    return [(node.name, node.op, node.target, node.args, node.kwargs) for node in graph.nodes]


def _layouts(inputs: Iterable[Input]) -> list[object]:
    return [(item.meta.shape, item.meta.dtype) if isinstance(item, TensorInput) else item.value for item in inputs]
