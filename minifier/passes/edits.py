"""The shape of a pass other than that of ops: a list of edits, each a Case made a little plainer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from minifier.case import Case

Edit = Callable[[Case], Case]


@dataclass(frozen=True, slots=True)
class Pass:
    """A family of simplifications. `edits(case)` lists those that still apply. `asked` marks a family that
    takes away what the user set on purpose: the failure probably needs it."""

    name: str
    sentence: str
    edits: Callable[[Case], list[Edit]]
    asked: bool = False
