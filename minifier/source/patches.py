"""Edits as replacements of spans of the text: quickly applied, and merged where they do not touch."""

from __future__ import annotations

import difflib
import itertools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True, order=True)
class Replacement:
    """The text that replaces the characters from `start` up to `end`."""

    start: int
    end: int
    text: str

    @property
    def growth(self) -> int:
        """By how many characters the source grows."""
        return len(self.text) - (self.end - self.start)

    def touches(self, start: int, end: int) -> bool:
        """Return whether the span shares a character with this range, or inserts at the place of an insertion."""
        return (self.start < end and start < self.end) or (self.start, self.end) == (start, end)


@dataclass(frozen=True, slots=True)
class Patch:
    """An edit of a source: disjoint spans in ascending order.

    `moved` has (name of a function, name of the function that its statements are in afterwards). `is_doubtful`: it more
    likely breaks the script than others. `is_idle`: nothing reads what it takes away.
    """

    spans: tuple[Replacement, ...]
    moved: tuple[tuple[str, str], ...] = ()
    is_doubtful: bool = field(default=False, compare=False)
    is_idle: bool = field(default=False, compare=False)

    def touches(self, other: Patch) -> bool:
        """Return whether the patches cannot be applied together."""
        return any(a.touches(b.start, b.end) for a in self.spans for b in other.spans)

    def after(self, applied: Patch) -> Patch | None:
        """Return this patch for the source to which another one was applied; None if it replaces something else there.

        What was changed within a span is still replaced.
        """
        spans = [_after(span, applied) for span in self.spans]
        return replace(self, spans=tuple(span for span in spans if span is not None)) if None not in spans else None


def _after(span: Replacement, applied: Patch) -> Replacement | None:
    start, end = span.start, span.end
    for each in applied.spans:
        if each.end <= span.start and (each.start, each.end) != (span.start, span.end):
            start, end = start + each.growth, end + each.growth
        elif span.start <= each.start and each.end <= span.end and (each.start, each.end) != (span.start, span.end):
            end += each.growth
        elif each.touches(span.start, span.end):
            return None
    return Replacement(start, end, span.text)


def merged(patches: Iterable[Patch]) -> Patch:
    """Return patches that do not touch as a single one."""
    together = list(patches)
    spans = sorted(span for patch in together for span in patch.spans)
    return Patch(tuple(spans), tuple(names for patch in together for names in patch.moved))


def alike(source: str, patches: Iterable[Patch]) -> Iterator[Patch]:
    """Yield as one the patches that take away the same, if they do not touch: `.mean()` of two expressions, say."""
    groups = defaultdict[tuple[tuple[str, str], ...], list[Patch]](list)
    for patch in patches:
        key = tuple(_taken_away(source[span.start : span.end], span.text) for span in patch.spans)
        if not any(patch.touches(other) for other in groups[key]):
            groups[key].append(patch)
    yield from (merged(group) for group in groups.values() if len(group) > 1)


def _taken_away(old: str, new: str) -> tuple[str, str]:
    """Return what a replacement takes away and adds; a part that stays may be another in each place."""
    stays = re.search(rf"(?<!\w){re.escape(new)}(?!\w)", old) if new else None
    return (old, new) if stays is None else (f"{old[: stays.start()]}\0{old[stays.end() :]}", "")


def patched(source: str, patch: Patch) -> str:
    """Return the source after the patch."""
    pieces, place = [], 0
    for span in patch.spans:
        pieces += [source[place : span.start], span.text]
        place = span.end
    return "".join([*pieces, source[place:]])


def difference(before: str, after: str) -> Patch:
    """Return a patch that turns a source into another one; it replaces whole words in lines that differ."""
    ours, theirs = before.splitlines(keepends=True), after.splitlines(keepends=True)
    starts = [0]
    for line in ours:
        starts.append(starts[-1] + len(line))
    first = _common(ours, theirs)
    last = _common(ours[first:][::-1], theirs[first:][::-1])
    blocks = difflib.SequenceMatcher(
        None, ours[first : len(ours) - last], theirs[first : len(theirs) - last], autojunk=False
    ).get_opcodes()
    spans: list[Replacement] = []
    for kind, begin, end, new_begin, new_end in blocks:
        if kind != "equal":
            pairs = _pairs(ours[first + begin : first + end], theirs[first + new_begin : first + new_end])
            place = starts[first + begin]
            for old, new in pairs:
                spans += _trimmed(place, old, new)
                place += len(old)
    return Patch(tuple(spans))


def _common(ours: Sequence[str], theirs: Sequence[str]) -> int:
    """Return how many elements both begin with."""
    return sum(1 for _ in itertools.takewhile(bool, map(str.__eq__, ours, theirs)))


def _pairs(old: Sequence[str], new: Sequence[str]) -> list[tuple[str, str]]:
    """Return what replaces what: line by line if there are as many, else all lines at once."""
    return list(zip(old, new, strict=True)) if len(old) == len(new) else [("".join(old), "".join(new))]


def _trimmed(place: int, old: str, new: str) -> Iterator[Replacement]:
    """Yield the span at `place` without what both texts begin and end with, except for parts of words."""
    if old == new:
        return
    begin = _common(old, new)
    while begin and (_is_within_word(old, begin) or _is_within_word(new, begin)):
        begin -= 1
    limit = min(len(old), len(new)) - begin
    tail = min(limit, _common(old[::-1], new[::-1]))
    while tail and (_is_within_word(old, len(old) - tail) or _is_within_word(new, len(new) - tail)):
        tail -= 1
    yield Replacement(place + begin, place + len(old) - tail, new[begin : len(new) - tail])


def _is_within_word(text: str, place: int) -> bool:
    """Return whether the characters on both sides belong to one name or number."""
    sides = text[place - 1 : place], text[place : place + 1]
    return all(side.isalnum() or side == "_" for side in sides)
