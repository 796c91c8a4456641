"""Phrases that stand on the terminal and in the report, which encloses names and source in backticks by `mark`."""

from __future__ import annotations

from collections.abc import Callable

from minifier.data.case.graph import Node
from minifier.data.case.literals import WITHOUT

Mark = Callable[[str], str]


def in_module(node: Node, mark: Mark = str) -> str:
    """Return ` in Block (layers.3)`, the class of the module around an op and its path; "" outside of modules."""
    name, path = node.module
    where = f" ({mark(path)})" if path else ""
    return f" in {mark(name)}{where}" if name else ""


def what_to_do(change: str, mark: Mark = str, note: str = "") -> str:
    """Return how a change that avoids the failure is made: `leave out ...`, or the line itself, with a note of it."""
    if change.startswith(WITHOUT):
        return f"leave out {mark(change.removeprefix(WITHOUT))}"
    return f"{mark(change)}{note}"
