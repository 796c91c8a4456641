"""A report as data: sections of blocks, rendered as Markdown and HTML. In texts, backticks enclose `code`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace


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
    """Code that is shown on a click."""

    title: str
    code: Code


Block = Text | Code | Items | Table | Drawing | Folded


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and its blocks. A too long report loses its sections of highest `weight` first, never those of 0."""

    title: str
    blocks: tuple[Block, ...]
    level: int = 2
    weight: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """A title and all sections."""

    title: str
    sections: tuple[Section, ...]

    def changed(self, change: Callable[[str], str]) -> Report:
        """Return a report with each text changed, except programs and pictures: these only have names of ops."""
        sections = (
            replace(section, title=change(section.title), blocks=tuple(_changed(b, change) for b in section.blocks))
            for section in self.sections
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


def cut(text: str, max_lines: int) -> str:
    """Return the text without its middle lines, if it has more than `max_lines`."""
    lines = text.rstrip().splitlines()
    if len(lines) <= max_lines:
        return "\n".join(lines)
    half = max_lines // 2
    return "\n".join([*lines[:half], f"[{len(lines) - 2 * half} lines left out]", *lines[-half:]])


def sections_of(title: str, *blocks: Block | None, level: int = 2, weight: int = 0) -> Iterable[Section]:
    """Return one section of the blocks that are not None, or no section without any."""
    present = tuple(block for block in blocks if block is not None)
    return [Section(title, present, level, weight)] if present else []
