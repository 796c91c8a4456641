"""The rows of a pass on a Case, and what each of their edits makes of it."""

from __future__ import annotations

from case_text import graph_of, show

from minifier.data.case import Case
from minifier.reduction.passes.edits import Pass
from minifier.reduction.passes.table import SIMPLIFICATIONS


def pass_named(name: str) -> Pass:
    (found,) = (each for each in SIMPLIFICATIONS if each.name == name)
    return found


def made(name: str, case: Case) -> dict[str, list[Case]]:
    """By the name of each row, the Cases that its edits make, in their order."""
    return {row.name: [edit(case) for edit in row.edits] for row in pass_named(name).rows(case)}


def names(name: str, case: Case) -> list[str]:
    return list(made(name, case))


def is_shown(case: Case, text: str) -> bool:
    """Whether this is the Case's graph, and its inputs are the graph's."""
    assert show(case) == show(graph_of(text))
    assert [node.name for node in case.graph.placeholders] == [item.name for item in case.inputs]
    return True
