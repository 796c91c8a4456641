"""A candidate as its difference from a base Case, which is small enough to send with each probe."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Sequence
from typing import Any

from minifier.case.case import Case
from minifier.case.graph import Graph, Module, Node
from minifier.case.inputs import Input
from minifier.case.serial import Json, pack, unpack

_STRUCTURAL_FIELDS = ("graph", "inputs", "tensors")


def edit_from(base: Case, case: Case) -> Json:
    """Return the JSON from which `edited` restores the candidate. Both Cases must share a tensor file."""
    changed = {
        f.name: pack(getattr(case, f.name))
        for f in dataclasses.fields(Case)
        if f.name not in _STRUCTURAL_FIELDS and getattr(case, f.name) != getattr(base, f.name)
    }
    edit = {"nodes": _stretches(base.graph.nodes, case.graph.nodes), "inputs": _stretches(base.inputs, case.inputs)}
    for name in ("attributes", "modules"):
        if getattr(case.graph, name) != getattr(base.graph, name):
            edit[name] = pack(getattr(case.graph, name))
    return {**edit, "changed": changed}


def edited(base: Case, edit: Json) -> Case:
    """Return the candidate. Raises ValueError, LookupError or TypeError if the edit does not fit the base."""
    graph = Graph(
        tuple(_restored(base.graph.nodes, edit["nodes"], lambda item: unpack(Node, item))),
        unpack(dict[str, str], edit["attributes"]) if "attributes" in edit else base.graph.attributes,
        unpack(dict[str, Module], edit["modules"]) if "modules" in edit else base.graph.modules,
    )
    inputs = tuple(_restored(base.inputs, edit["inputs"], lambda item: unpack(Input, item)))
    hints = typing.get_type_hints(Case)
    changed = {name: unpack(hints[name], value) for name, value in edit["changed"].items()}
    return dataclasses.replace(base, graph=graph, inputs=inputs, **changed)


def _stretches(base: Sequence[Any], items: Sequence[Any]) -> Json:
    """Return [first, last] for each stretch of unchanged items, and each changed item itself."""
    positions = {item.name: i for i, item in enumerate(base)}
    stretches: list[Any] = []
    for item in items:
        position = positions.get(item.name)
        if position is None or base[position] != item:
            stretches.append(pack(item))
        elif stretches and isinstance(stretches[-1], list) and stretches[-1][1] == position - 1:
            stretches[-1][1] = position
        else:
            stretches.append([position, position])
    return stretches


def _restored(base: Sequence[Any], stretches: Json, read: Callable[[Json], Any]) -> list[Any]:
    items: list[Any] = []
    for stretch in stretches:
        if isinstance(stretch, list):
            first, last = stretch
            items += base[first : last + 1]
        else:
            items.append(read(stretch))
    return items
