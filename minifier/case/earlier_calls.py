"""Build the calls before the failing call, and tell which of them call the failing function."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from minifier.case.case import Call, Case
from minifier.case.graph import Graph
from minifier.case.inputs import Input, TensorInput, with_ones


def called(case: Case, times: int) -> Case:
    """Return the Case whose own graph is called so often with the inputs of the failing call, that call included."""
    others = [call for call in case.before if not call.is_repeat]
    place = next((i for i, call in enumerate(case.before) if call.is_repeat), len(others))
    pause = next((call.pause for call in reversed(case.before) if call.is_repeat), 0.0)
    own = [Call(times=times - 1, pause=pause)] if times > 1 else []
    return replace(case, before=(*others[:place], *own, *others[place:]))


def paused(case: Case, seconds: float) -> Case:
    """Return the Case with a pause of so many seconds between its last earlier call and the failing call."""
    *before, last = case.before
    return replace(case, before=(*before, replace(last, pause=seconds)))


def with_others(case: Case, calls: Sequence[Call | None]) -> Case:
    """Return the Case with these calls in the places of its calls of other graphs, in their order; None removes one.

    A pause before the failing call stays.
    """
    left = iter(calls)
    before = [next(left) if call.graph is not None else call for call in case.before]
    changed = replace(case, before=tuple(call for call in before if call is not None))
    return paused(changed, case.before[-1].pause) if changed.before and case.before[-1].pause else changed


def call_of(case: Case, like: Call | None = None) -> Call:
    """Return a call of the Case's graph as another graph, with ones for floating point tensors and zeros for others.

    `like` gives the number of calls and the other settings. The default is a single call.
    """
    inputs = tuple(with_ones(item) if isinstance(item, TensorInput) else item for item in case.inputs)
    return replace(like or Call(), graph=case.graph, inputs=inputs, sizes=(), ones=None)


def shares_function(case: Case, call: Call) -> bool:
    """Tell whether the call's graph is the Case's own, with layouts of inputs that no other call has."""
    if call.graph is None or call.backward or _text(call.graph) != _text(case.graph):
        return False
    layouts = [_layouts(each.inputs) for each in case.others if _text(each.graph) == _text(case.graph)]
    return layouts.count(_layouts(call.inputs)) == 1 and _layouts(call.inputs) != _layouts(case.inputs)


def is_alike(one: Graph, other: Graph) -> bool:
    """Tell whether both graphs have the same nodes, apart from the arguments."""
    return [(node.name, node.target) for node in one.nodes] == [(node.name, node.target) for node in other.nodes]


def _text(graph: Graph | None) -> list[tuple[object, ...]]:
    return [(node.name, node.op, node.target, node.args, node.kwargs) for node in graph.nodes] if graph else []


def _layouts(inputs: Iterable[Input]) -> list[object]:
    return [(item.meta.shape, item.meta.dtype) if isinstance(item, TensorInput) else item.value for item in inputs]
