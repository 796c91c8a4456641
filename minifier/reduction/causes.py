"""The ops that make a result wrong."""

from __future__ import annotations

from dataclasses import dataclass

Atom = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Causes:
    """The ops that make the graph's results wrong, if `known`.

    guilty: atoms. With eager's values in the places of their results the failure is gone, and not with fewer.
    innocent: ops with wrong values on which the graph's results do not depend.
    """

    known: bool = False
    guilty: tuple[Atom, ...] = ()
    innocent: frozenset[str] = frozenset()
