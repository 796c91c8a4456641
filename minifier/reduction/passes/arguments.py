"""Arguments of calls to their defaults, and numbers in them to simple ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from typing import Any

from minifier.data.case import Case, Node
from minifier.data.case.graph import map_leaves, refs_in
from minifier.data.torch_names import HIGHER_ORDER
from minifier.reduction.passes.edits import Edit, Pass, Row, called, row
from minifier.reduction.passes.operands import pruned


def _on_op(name: str, change: Callable[[Node], Node]) -> Edit:
    """Return the edit that changes the op of this name, and removes inputs that nothing reads then."""

    def edit(case: Case) -> Case:
        nodes = tuple(change(node) if node.is_op and node.name == name else node for node in case.graph.nodes)
        return case if nodes == case.graph.nodes else pruned(replace(case, graph=replace(case.graph, nodes=nodes)))

    return edit


def _without_keyword(name: str, key: str) -> Edit:
    return _on_op(name, lambda node: replace(node, kwargs={k: v for k, v in node.kwargs.items() if k != key}))


def _without_trailing(name: str, start: int) -> Edit:
    return _on_op(name, lambda node: replace(node, args=node.args[:start]))


def _without_number(name: str, size: int, place: int) -> Edit:
    """Return the edit that takes the number at a place out of each sequence of `size` numbers, as dims and shifts."""

    def shorter(value: Any) -> Any:
        is_one = isinstance(value, (tuple, list)) and len(value) == size and all(type(each) is int for each in value)
        return type(value)([*value[:place], *value[place + 1 :]]) if is_one else value

    def change(node: Node) -> Node:
        kwargs = {key: shorter(value) for key, value in node.kwargs.items()}
        return replace(node, args=tuple(map(shorter, node.args)), kwargs=kwargs)

    return _on_op(name, change)


def _arguments(case: Case) -> list[Row]:
    rows = []
    for node in case.graph.ops:
        if node.op == "call_module" or node.target.startswith(("operator.", HIGHER_ORDER)):
            continue
        call = f"The call of {called(node)} without its"
        min_args = 1 if any(True for _ in refs_in(node.args[:1])) else 0
        min_args += node.target in _NEEDS_ARGUMENTS
        if len(node.args) >= min_args:
            rows += [
                row(f"{key}= of {node.name}", _without_keyword(node.name, key), change=f"{call} argument `{key}=`.")
                for key in node.kwargs
            ]
        if len(node.args) > min_args:
            edits = [_without_trailing(node.name, start) for start in range(min_args, len(node.args))]
            rows.append(row(f"arguments of {node.name}", *edits, change=f"{call} last positional arguments."))
        given = (*node.args, *node.kwargs.values())
        for size in {len(each) for each in given if isinstance(each, (tuple, list)) and len(each) > 1}:
            for place in range(size):
                edit, change = _without_number(node.name, size, place), f"{call} number {place + 1} of {size}."
                rows.append(row(f"number {place + 1} of {size} of {node.name}", edit, change=change))
    return rows


_MAX_DIMENSION = 3  # an integer up to this may be a dimension and stays
_NEEDS_ARGUMENTS = ("to", "type")  # methods that do nothing without arguments


def _numbers(node: Node) -> Iterator[tuple[int, int | float]]:
    """Yield the position and value of each number among the leaves of the arguments."""
    leaves: list[Any] = []
    map_leaves((node.args, node.kwargs), leaves.append)
    for i, leaf in enumerate(leaves):
        if type(leaf) in (int, float):
            yield i, leaf


def _simple(value: float) -> list[int | float]:
    if type(value) is int:
        return [1, 2] if abs(value) > _MAX_DIMENSION else []
    rounded = [float(f"{value:.{digits}g}") for digits in (1, 2)]
    shorter = [number for number in (1.0, 0.5, 2.0, *rounded) if len(repr(number)) < len(repr(value))]
    return list(dict.fromkeys(shorter))


def _with_number(name: str, position: int, new: float) -> Edit:
    def change(node: Node) -> Node:
        if position not in dict(_numbers(node)):
            return node
        positions = count()
        args, kwargs = map_leaves((node.args, node.kwargs), lambda leaf: new if next(positions) == position else leaf)
        return replace(node, args=args, kwargs=kwargs)

    return _on_op(name, change)


def _literals(case: Case) -> list[Row]:
    return [
        row(
            f"{value} in {node.name}",
            *(_with_number(node.name, position, new) for new in _simple(value)),
            change=f"A simpler number in the place of `{value}` in the call of {called(node)}.",
        )
        for node in case.graph.ops
        if not node.target.startswith(HIGHER_ORDER)
        for position, value in _numbers(node)
        if _simple(value)
    ]


def literal_steps(case: Case) -> list[Edit]:
    """Return edits that make a number in the arguments of an op larger or smaller by 1."""
    return [
        _with_number(node.name, position, value + step)
        for node in case.graph.ops
        if not node.target.startswith(HIGHER_ORDER)
        for position, value in _numbers(node)
        for step in (1, -1)
    ]


PASSES = (
    Pass("arguments", "arguments of calls to their defaults", _arguments),
    Pass("literals", "numbers in arguments to simple ones", _literals),
)
