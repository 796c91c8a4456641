"""Edits that make values small: 1 in the place of a value, smaller numbers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import libcst as cst
from libcst import matchers as m

from minifier.repro.source.patches import Edited, Located, Patch, Replacement, replaced
from minifier.repro.source.statement_edits import (
    Nodes,
    names_backend,
    unpacked,
)

_FIRST_TRIED = (1, 2, 3)  # of integers; then their range is halved
_SIMPLE_FLOATS = (1.0, 0.5)


@dataclass
class _Site:
    """Literals of one number that change together, by their positions among all literals of the script.

    `refused` is the largest integer that was refused. The next smaller integer is tried ahead of the bisection, which
    most numbers of a second walk do not need. `floats` are the texts of a float that are still to be tried.
    `is_single`: one of several occurrences, where only the simplest number is tried.
    """

    places: tuple[int, ...]
    is_single: bool = False
    refused: int = 0
    has_tried_next: bool = False
    floats: list[str] = field(default_factory=list)
    proposed: str = ""

    def propose(self, text: str) -> str:
        """Return the next text to try in place of this one; "" if there is none."""
        self._judge(text)
        value = _integer(text)
        if self.is_single and self.proposed:
            self.proposed = ""
        elif value is None:
            self.proposed = self.floats.pop(0) if self.floats else ""
        else:
            target = next((n for n in _FIRST_TRIED if n > self.refused), 0)
            if not target:
                target = (self.refused + value) // 2 if self.has_tried_next else value - 1
                self.has_tried_next = True
            self.proposed = str(target) if self.refused < target < value else ""
        return self.proposed

    def _judge(self, text: str) -> None:
        """Note whether the last proposal is the text by now."""
        if text == self.proposed:
            self.floats = []  # of which simpler ones were refused
        elif self.proposed and _integer(text) is not None:
            self.refused = int(self.proposed)


class SmallNumbers:
    """Lists the next edit of each number, for each of the sources that its edits lead to: a binary search."""

    def __init__(self) -> None:
        self._sites: list[_Site] = []
        self._stage = 0  # of: all occurrences of a number, single ones

    def edits(self, located: Located) -> Iterator[Patch]:
        """Yield the next edit of each number."""
        literals = _literals(located)
        edits = list(self._next(literals))
        while not edits and self._stage < 2:
            self._stage += 1
            self._sites = _equal(literals) if self._stage == 1 else _single(self._sites, literals)
            edits = list(self._next(literals))
        yield from edits

    def _next(self, literals: Sequence[Replacement]) -> Iterator[Patch]:
        for site in self._sites:
            text = literals[site.places[0]].text
            if new := site.propose(text):
                spans = (literals[place] for place in site.places)
                yield Patch(tuple(Replacement(span.start, span.end, new) for span in spans))


def _literals(located: Located) -> list[Replacement]:
    """Return the number literals of the script, without parentheses around them."""
    spans = []
    for node in m.findall(located.module, m.Integer() | m.Float()):
        assert isinstance(node, (cst.Integer, cst.Float)), "as matched"
        span = located.span(node)
        start = span.start + span.text.index(node.value)
        spans.append(Replacement(start, start + len(node.value), node.value))
    return sorted(spans)


def _integer(text: str) -> int | None:
    try:
        return int(text, 0)
    except ValueError:
        return None


def _equal(literals: Sequence[Replacement]) -> list[_Site]:
    """Return a site for each number that occurs."""
    places = defaultdict[str, list[int]](list)
    for place, span in enumerate(literals):
        places[span.text].append(place)
    return [_Site(tuple(numbers), floats=_simple_floats(text)) for text, numbers in places.items()]


def _single(sites: Sequence[_Site], literals: Sequence[Replacement]) -> list[_Site]:
    """Return a site for each occurrence of the numbers that occur more than once: 1 is tried there."""
    return [
        _Site((place,), is_single=True, floats=_simple_floats(literals[place].text))
        for site in sites
        if len(site.places) > 1
        for place in site.places
    ]


def _simple_floats(text: str) -> list[str]:
    """Return simpler floats, the simplest first; none for an integer, or a number that is simple itself."""
    if _integer(text) is not None or float(text) in (0.0, _SIMPLE_FLOATS[0]):
        return []
    value = float(text)
    simpler = [number for number in (*_SIMPLE_FLOATS, float(f"{value:.1g}")) if number != value]
    short = [repr(number) for number in simpler if len(repr(number)) <= len(text)]
    return list(dict.fromkeys(short[: _SIMPLE_FLOATS.index(value)] if value in _SIMPLE_FLOATS else short))


_LITERAL = m.Integer() | m.Float() | m.SimpleString() | m.Lambda() | m.Name("True") | m.Name("False") | m.Name("None")


def values_as_one(module: cst.Module) -> Iterator[Edited]:
    """An argument, or an assigned value, becomes 1."""
    visitor = Nodes(module)
    bases = {base for node in visitor.nodes if isinstance(node, cst.ClassDef) for base in node.bases}
    fixed = unpacked(module) | bases | visitor.compiled
    for node in visitor.nodes:
        if not isinstance(node, (cst.Arg, cst.Assign)) or node in fixed or node.value in fixed or names_backend(node):
            continue
        if not m.matches(node, m.Arg(star=m.MatchIfTrue(bool))) and not m.matches(node.value, _LITERAL):
            yield from replaced(module, node.value, cst.Integer("1"))
