"""The shape of a pass other than that of ops: rows, each of which makes one thing of a Case plainer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from minifier.case import Case

Edit = Callable[[Case], Case]
"""A change; gives back the Case as it is where there is nothing to change."""

Rung = tuple[Edit, ...]
"""Changes that are as good as each other: the first that leaves a program which runs is taken."""


@dataclass(frozen=True, slots=True)
class Row:
    """One thing that could be plainer. `name` says what, for people; `rungs` go from the plainest to what is nearly as
    it was."""

    name: str
    rungs: tuple[Rung, ...]

    @property
    def edits(self) -> list[Edit]:
        """All of them, in the order of the rungs."""
        return [edit for rung in self.rungs for edit in rung]


def row(name: str, *edits: Edit) -> Row:
    """A row with one change a rung."""
    return Row(name, tuple((edit,) for edit in edits))


@dataclass(frozen=True, slots=True)
class Pass:
    """A family of simplifications. `rows(case)` lists those that still apply. `asked` marks a family that
    takes away what the user set on purpose: the failure probably needs it. `alone` marks one whose rows are only
    tried one by one."""

    name: str
    sentence: str
    rows: Callable[[Case], Sequence[Row]]
    asked: bool = False
    alone: bool = False
