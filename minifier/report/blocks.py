"""A report as data: sections of blocks, from which each form of it is written. In texts `code` stands between
backticks, as in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True, slots=True)
class Code:
    """What is shown as it is: a program, a traceback."""

    text: str
    language: str = ""


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    items: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Cells of text under a head."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class Drawing:
    """A picture as SVG, for the page; `mermaid` is what trackers draw, where there is such a form of it."""

    svg: str
    title: str
    mermaid: str = ""


@dataclass(frozen=True, slots=True)
class Folded:
    """What few want to read: shown on a click."""

    title: str
    code: Code


Block = Text | Code | Items | Table | Drawing | Folded


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and what is below it. Of a report that is too long those of the highest `weight` go first; those of
    weight 0 never do."""

    title: str
    blocks: tuple[Block, ...]
    level: int = 2
    weight: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """The whole of it."""

    title: str
    sections: tuple[Section, ...]

    def changed(self, change: Callable[[str], str]) -> Report:
        """The same with each of its texts changed, but no program, and no picture: these have names of ops alone."""
        sections = (
            replace(each, title=change(each.title), blocks=tuple(_changed(block, change) for block in each.blocks))
            for each in self.sections
        )
        return Report(change(self.title), tuple(sections))


def _changed(block: Block, change: Callable[[str], str]) -> Block:
    match block:
        case Items(items):
            return Items(tuple(map(change, items)))
        case Table(head, rows):
            return Table(head, tuple(tuple(map(change, row)) for row in rows))
        case Folded(title, code):
            return Folded(title, replace(code, text=change(code.text)))
        case Code(language="python") | Drawing():
            return block
        case Text(text) | Code(text):
            return replace(block, text=change(text))


def cut(text: str, most: int) -> str:
    """The text without its middle lines, if there are more than `most`."""
    lines = text.rstrip().splitlines()
    if len(lines) <= most:
        return "\n".join(lines)
    half = most // 2
    return "\n".join([*lines[:half], f"[{len(lines) - 2 * half} lines left out]", *lines[-half:]])


def sections_of(title: str, *blocks: Block | None, level: int = 2, weight: int = 0) -> Iterable[Section]:
    """One section with those of the blocks that there are; none without any."""
    found = tuple(block for block in blocks if block is not None)
    return [Section(title, found, level, weight)] if found else []
