"""A candidate as what it differs in from the Case that it was made of: small enough to be sent for each probe."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable, Sequence
from typing import Any

from minifier.case.case import Case
from minifier.case.encode import Json, pack, unpack
from minifier.case.graph import Graph, Module, Node
from minifier.case.inputs import Input

_APART = ("graph", "inputs", "tensors")


def edit_from(base: Case, case: Case) -> Json:
    """What `edited` makes the candidate of, as JSON. Both are to have their values in one tensor file."""
    changed = {
        f.name: pack(getattr(case, f.name))
        for f in dataclasses.fields(Case)
        if f.name not in _APART and getattr(case, f.name) != getattr(base, f.name)
    }
    edit = {"nodes": _picked(base.graph.nodes, case.graph.nodes), "inputs": _picked(base.inputs, case.inputs)}
    for part in ("attributes", "modules"):
        if getattr(case.graph, part) != getattr(base.graph, part):
            edit[part] = pack(getattr(case.graph, part))
    return {**edit, "changed": changed}


def edited(base: Case, edit: Json) -> Case:
    """The candidate; raises ValueError, LookupError or TypeError for what is no edit of the base."""
    graph = Graph(
        tuple(_chosen(base.graph.nodes, edit["nodes"], lambda item: unpack(Node, item))),
        unpack(dict[str, str], edit["attributes"]) if "attributes" in edit else base.graph.attributes,
        unpack(dict[str, Module], edit["modules"]) if "modules" in edit else base.graph.modules,
    )
    inputs = tuple(_chosen(base.inputs, edit["inputs"], lambda item: unpack(Input, item)))
    hints = typing.get_type_hints(Case)
    changed = {name: unpack(hints[name], value) for name, value in edit["changed"].items()}
    return dataclasses.replace(base, graph=graph, inputs=inputs, **changed)


def _picked(base: Sequence[Any], items: Sequence[Any]) -> Json:
    """[first, last] for each stretch that is as in the base, and what is not as it is."""
    places = {item.name: i for i, item in enumerate(base)}
    picked: list[Any] = []
    for item in items:
        place = places.get(item.name)
        if place is None or base[place] != item:
            picked.append(pack(item))
        elif picked and isinstance(picked[-1], list) and picked[-1][1] == place - 1:
            picked[-1][1] = place
        else:
            picked.append([place, place])
    return picked


def _chosen(base: Sequence[Any], picked: Json, read: Callable[[Json], Any]) -> list[Any]:
    items: list[Any] = []
    for each in picked:
        if isinstance(each, list):
            first, last = each
            items += base[first : last + 1]
        else:
            items.append(read(each))
    return items
