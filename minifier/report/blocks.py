"""A report as data: sections of blocks, rendered as Markdown and HTML. In texts, backticks enclose `code`."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

_HEADER = re.compile(r"[ |+]*(Exception Group )?Traceback \(most recent call last\):")
_FRAME = re.compile(r'[ |+]*File "')


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True, slots=True)
class Code:
    """Preformatted text: a program, a traceback."""

    text: str
    language: str = ""


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under a head."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Drawing:
    """A picture as SVG for the page, and as Mermaid for issue trackers, or "" if that form does not exist."""

    svg: str
    title: str
    mermaid: str = ""


@dataclass(frozen=True, slots=True)
class Folded:
    """Blocks that are shown on a click."""

    title: str
    blocks: tuple[Block, ...]


Block = Text | Code | Items | Table | Drawing | Folded


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and its blocks. A report that is too long loses its heaviest sections, but none of weight 0."""

    title: str
    blocks: tuple[Block, ...]
    level: int = 2
    weight: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """A title and all sections."""

    title: str
    sections: tuple[Section, ...]

    def plus(self, sections: Iterable[Section]) -> Report:
        """Return a report with these sections at its end."""
        return replace(self, sections=(*self.sections, *sections))

    def without_last(self, count: int) -> Report:
        """Return a report without its last `count` sections."""
        return replace(self, sections=self.sections[: len(self.sections) - count])

    def changed(self, change: Callable[[str], str], programs: Callable[[str], str]) -> Report:
        """Return a report with each text changed, programs in their own way. Pictures stay: they have names of ops."""
        sections = (
            replace(
                section,
                title=change(section.title),
                blocks=tuple(_changed(block, change, programs) for block in section.blocks),
            )
            for section in self.sections
        )
        return Report(change(self.title), tuple(sections))


def _changed(block: Block, change: Callable[[str], str], programs: Callable[[str], str]) -> Block:
    match block:
        case Items(items):
            return Items(tuple(map(change, items)))
        case Table(head, rows):
            return Table(head, tuple(tuple(map(change, row)) for row in rows))
        case Folded(title, blocks):
            return Folded(title, tuple(_changed(block, change, programs) for block in blocks))
        case Code(text, language="python"):
            return replace(block, text=programs(text))
        case Drawing():
            return block
        case Text(text) | Code(text):
            return replace(block, text=change(text))


def cut(text: str, max_lines: int) -> str:
    """Cut a text of more than `max_lines` lines to about this length.

    A text loses its middle. In a traceback each exception keeps its innermost frames and the ends of its message.
    """
    lines = text.rstrip().splitlines()
    starts = [0, *(i for i, line in enumerate(lines) if i and _HEADER.match(line)), len(lines)]
    sections = [lines[start:end] for start, end in itertools.pairwise(starts)]
    allowed, left = dict.fromkeys(range(len(sections)), 0), max_lines
    for rank, number in enumerate(sorted(allowed, key=lambda number: len(sections[number]))):
        allowed[number] = min(len(sections[number]), left // (len(sections) - rank))
        left -= allowed[number]
    return "\n".join(line for n, section in enumerate(sections) for line in _cut_exception(section, allowed[n]))


def _cut_exception(lines: list[str], max_lines: int) -> list[str]:
    """Cut the traceback of an exception, or a text without frames."""
    frames = [number for number, line in enumerate(lines) if _FRAME.match(line)]
    if not frames:
        return _without_middle(lines, max_lines, max_lines // 2)
    behind = (number for number in range(frames[-1], len(lines)) if not lines[number].startswith((" ", "|")))
    end = next(behind, len(lines))
    message_lines = min(len(lines) - end, max(max_lines // 3, max_lines - end))
    message = _without_middle(lines[end:], message_lines, message_lines // 2)
    return [*_without_middle(lines[:end], max_lines - message_lines, max_lines // 6), *message]


def _without_middle(lines: list[str], max_lines: int, head: int) -> list[str]:
    """Return `max_lines` of the lines, the first `head` of them from the beginning, with a note between."""
    if len(lines) <= max_lines:
        return lines
    tail = len(lines) - (max_lines - head)
    return [*lines[:head], f"[{tail - head} lines left out]", *lines[tail:]]


def sections_of(title: str, *blocks: Block | None, level: int = 2, weight: int = 0) -> Iterable[Section]:
    """Return a section of the blocks that are not None, or no section without any."""
    present = tuple(block for block in blocks if block is not None)
    return [Section(title, present, level, weight)] if present else []
