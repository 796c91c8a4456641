"""The types of a simplification pass: rows of alternative edits, each row for a detail of a Case."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from minifier.case import Case

Edit = Callable[[Case], Case]
"""A change. Returns the Case itself where there is nothing to change."""

Rung = tuple[Edit, ...]
"""Equally good alternatives; the first that yields a runnable program wins."""


@dataclass(frozen=True, slots=True)
class Row:
    """A detail to simplify. `name` is shown to the user; `rungs` go from the simplest edits to the smallest."""

    name: str
    rungs: tuple[Rung, ...]

    @property
    def edits(self) -> list[Edit]:
        """The edits of all rungs, in order."""
        return [edit for rung in self.rungs for edit in rung]


def row(name: str, *edits: Edit) -> Row:
    """Return a row with a single edit per rung."""
    return Row(name, tuple((edit,) for edit in edits))


@dataclass(frozen=True, slots=True)
class Pass:
    """A family of simplifications; `rows(case)` lists the rows that still apply.

    `asked` marks settings that the user chose: the failure probably needs them. Rows of an `alone` pass are never
    combined."""

    name: str
    sentence: str
    rows: Callable[[Case], Sequence[Row]]
    asked: bool = False
    alone: bool = False
