"""A report as data, as report.md and report.html, and as an issue on GitHub."""

from __future__ import annotations

import functools
import itertools
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from html import escape
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name

from minifier.data.failure.normalise import shortened
from minifier.repro.report.inline import cell, inert, spans


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
    """A picture, as SVG with a title for the page, or as Mermaid for issue trackers."""

    svg: str = ""
    title: str = ""
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


LIMIT = 65_536  # characters of an issue's text on GitHub
_BLOCK_LINE_LIMITS = (200, 60, 20, 6)  # tried in turn to shorten code, if leaving out sections is not enough


def markdown(report: Report, limit: int = LIMIT) -> str:
    """Return the report in at most `limit` characters. The omitted sections are listed at its end."""
    sections, left_out = list(report.sections), list[str]()
    while len(text := _whole(report.title, sections, left_out)) > limit:
        heaviest = max(sections, key=lambda section: section.weight)
        if not heaviest.weight:
            break
        sections.remove(heaviest)
        left_out.append(heaviest.title)
    for lines in _BLOCK_LINE_LIMITS:
        if len(text) <= limit:
            return text
        sections = [_with_less(section, lines) for section in sections]
        text = _whole(report.title, sections, [*left_out, f"all but {lines} lines of what is longer"])
    if len(text) > limit:
        note = "\n\nThe rest is in report.html.\n"
        text = text[: limit - len(note)] + note
    return text


def _whole(title: str, sections: Sequence[Section], left_out: Sequence[str]) -> str:
    paragraphs = [f"# {_line(title)}\n"] if title else []
    for section in sections:
        blocks = [text for text in map(_block, section.blocks) if text]
        if blocks or not section.blocks:  # no heading of a picture that only the page shows
            paragraphs += [f"{'#' * section.level} {_line(section.title)}\n", *blocks]
    if left_out:
        note = "For its length this is in report.html alone:\n"
        paragraphs += ["## Left out\n", note, _block(Items(tuple(left_out)))]
    return "\n".join(paragraphs)


def _with_less(section: Section, lines: int) -> Section:
    def less(block: Block) -> Block:
        if isinstance(block, Folded):
            return replace(block, blocks=tuple(map(less, block.blocks)))
        if isinstance(block, Code) and block.language == "python" and block.text.count("\n") > lines:
            return Text("It is too long to be shown here: `repro.py` in bundle.zip.")  # half a program is useless
        return replace(block, text=cut(block.text, lines)) if isinstance(block, Code) else block

    return replace(section, blocks=tuple(map(less, section.blocks)))


@singledispatch
def _block(block: Block) -> str:
    raise TypeError(block)


@_block.register
def _(block: Text) -> str:
    return f"{inert(block.text)}\n"


@_block.register
def _(block: Code) -> str:
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", block.text)), default=0))
    return f"{fence}{block.language}\n{block.text.rstrip()}\n{fence}\n"


@_block.register
def _(block: Items) -> str:
    return "".join(f"- {_line(item)}\n" for item in block.items)


@_block.register
def _(block: Table) -> str:
    head, *rows = (f"| {' | '.join(map(cell, row))} |\n" for row in (block.head, *block.rows))
    return "".join((head, f"| {' | '.join(['---'] * len(block.head))} |\n", *rows))


def _line(text: str) -> str:
    return inert(" ".join(text.split()))


@_block.register
def _(block: Drawing) -> str:
    return _block(Code(block.mermaid, "mermaid")) if block.mermaid else ""


@_block.register
def _(block: Folded) -> str:
    content = "\n".join(filter(None, map(_block, block.blocks)))
    return f"<details>\n<summary>{escape(block.title)}</summary>\n\n{content}\n</details>\n"


def page(report: Report) -> str:
    """Return the report as an HTML document, without what only an issue tracker draws."""
    sections = (replace(each, blocks=tuple(filter(_has_page, each.blocks))) for each in report.sections)
    shown = tuple(new for new, old in zip(sections, report.sections, strict=True) if new.blocks or not old.blocks)
    return _environment().get_template("page.html.jinja").render(report=replace(report, sections=shown))


def _has_page(block: Block) -> bool:
    return not isinstance(block, Drawing) or bool(block.svg)


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("minifier", "repro/report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters |= {"inline": _inline, "kind": _kind, "coloured": _coloured, "anchor": _anchor}
    return environment


def _kind(block: Block) -> str:
    return type(block).__name__


def _inline(text: str) -> Markup:
    """Convert a text with inline code to HTML."""
    parts = ((is_code, escape(content, quote=False)) for is_code, content in spans(text))
    return Markup("".join(f"<code>{part}</code>" if is_code else part for is_code, part in parts))


def _coloured(text: str, language: str) -> Markup:
    """Return a program as HTML, each token with a class."""
    if not language:
        return Markup(escape(text))
    html = highlight(text, get_lexer_by_name(language), HtmlFormatter(nowrap=True))
    return Markup(html.rstrip("\n"))


def _anchor(title: str) -> str:
    return re.sub(r"\W+", "-", title.lower()).strip("-")


_HEADER = re.compile(r"[ |+]*(Exception Group )?Traceback \(most recent call last\):")
_FRAME = re.compile(r'[ |+]*File "')


ISSUE = "issue.md"
_MAX_TITLE_CHARACTERS = 256  # of an issue on GitHub


@dataclass(frozen=True, slots=True)
class Issue:
    """The title and the body of an issue, without secrets, and the repository that it is for; "" if that is unknown."""

    title: str
    body: str
    repository: str = ""

    def command(self, body: Path) -> str:
        """Return the command of GitHub's client that files the issue, with its body in this file."""
        where = ["--repo", self.repository] if self.repository else []
        return shlex.join(["gh", "issue", "create", *where, "--title", self.title, "--body-file", str(body)])


def issue_of(report: Report, repository: str = "") -> Issue:
    """Return the issue that the report makes. The title stands in a field of its own, not in the body."""
    title = shortened(report.title, _MAX_TITLE_CHARACTERS)
    return Issue(title, markdown(replace(report, title="")), repository)
