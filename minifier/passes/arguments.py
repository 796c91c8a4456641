"""Arguments of calls: to their defaults, and numbers to simple ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from typing import Any

from minifier.case import Case, Node
from minifier.case.graph import map_leaves, refs_in
from minifier.case.targets import HIGHER_ORDER
from minifier.passes.edits import Edit, Pass, Row, row
from minifier.passes.operands import pruned


def _with_node(case: Case, name: str, **changes: Any) -> Case:
    """The Case with one op called in another way, and without inputs that were for it alone."""
    nodes = tuple(replace(node, **changes) if node.name == name else node for node in case.graph.nodes)
    return pruned(replace(case, graph=replace(case.graph, nodes=nodes)))


def _call(case: Case, name: str) -> Node | None:
    return next((node for node in case.graph.ops if node.name == name), None)


def _without_keyword(name: str, key: str) -> Edit:
    def edit(case: Case) -> Case:
        node = _call(case, name)
        if node is None or key not in node.kwargs:
            return case
        return _with_node(case, name, kwargs={k: v for k, v in node.kwargs.items() if k != key})

    return edit


def _without_last(name: str, position: int) -> Edit:
    def edit(case: Case) -> Case:
        node = _call(case, name)
        if node is None or len(node.args) <= position:
            return case
        return _with_node(case, name, args=node.args[:position])

    return edit


def _arguments(case: Case) -> list[Row]:
    rows = []
    for node in case.graph.ops:
        if node.op == "call_module" or node.target.startswith(("operator.", HIGHER_ORDER)) or node.target in _EMPTY:
            continue
        rows += [row(f"{key}= of {node.name}", _without_keyword(node.name, key)) for key in node.kwargs]
        least = 1 if any(True for _ in refs_in(node.args[:1])) else 0
        if len(node.args) > least:
            cuts = range(least, len(node.args))
            rows.append(row(f"arguments of {node.name}", *(_without_last(node.name, cut) for cut in cuts)))
    return rows


_SMALL = 3
_EMPTY = ("to", "type")  # methods that do nothing without their arguments


def _numbers(node: Node) -> Iterator[tuple[int, int | float]]:
    found: list[Any] = []
    map_leaves((node.args, node.kwargs), found.append)
    for i, leaf in enumerate(found):
        if type(leaf) in (int, float):
            yield i, leaf


def _simple(value: float) -> list[int | float]:
    """Simpler numbers of the same type, the simplest first. Small integers, which may be dimensions, stay."""
    if type(value) is int:
        return [1, 2] if abs(value) > _SMALL else []
    rounded = [float(f"{value:.{digits}g}") for digits in (1, 2)]
    shorter = [number for number in (1.0, 0.5, 2.0, *rounded) if len(repr(number)) < len(repr(value))]
    return list(dict.fromkeys(shorter))


def _with_number(name: str, place: int, new: float) -> Edit:
    def edit(case: Case) -> Case:
        node = _call(case, name)
        if node is None or place not in dict(_numbers(node)):
            return case
        places = count()
        args, kwargs = map_leaves((node.args, node.kwargs), lambda leaf: new if next(places) == place else leaf)
        return _with_node(case, name, args=args, kwargs=kwargs)

    return edit


def _literals(case: Case) -> list[Row]:
    return [
        row(f"{value} in {node.name}", *(_with_number(node.name, place, new) for new in _simple(value)))
        for node in case.graph.ops
        if not node.target.startswith(HIGHER_ORDER)
        for place, value in _numbers(node)
        if _simple(value)
    ]


PASSES = (
    Pass("arguments", "arguments of calls to their defaults", _arguments),
    Pass("literals", "numbers in arguments to simple ones", _literals),
)
