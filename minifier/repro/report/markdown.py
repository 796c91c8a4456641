"""A report as Markdown, as a page that is made of it, and as an issue on GitHub.

Messages and names may hold anything: markup, HTML, links, mentions of people. They stand in code, which they cannot
end. A section is made of blocks of Markdown; `code`, `cell`, `prose` and `fence` make them of texts.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path

from markdown_it import MarkdownIt
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name

from minifier.data.failure.normalise import shortened

MARKDOWN, PAGE, ISSUE = "report.md", "report.html", "issue.md"
LIMIT = 65_536  # characters of an issue's text on GitHub
_MAX_TITLE_CHARACTERS = 256  # of an issue on GitHub
_TOO_LONG = "It is too long to be shown here: report.html and `repro.py` have it."
_TOKEN = re.compile(r"(?<!`)(?P<ticks>`+)(?!`).+?(?<!`)(?P=ticks)(?!`)|[^\s`]+|`+")  # inline code, or a word
# Words that Markdown or an issue tracker changes: by markup, HTML, entities, links, mentions and references.
_CHANGED = re.compile(
    r"[`*<>\\$#~@&|^]|(?<![^\W_])_|_(?![^\W_])|\][(\[:]|!\[|://|\bwww\.|\bGH-\d|\b(?:mailto|xmpp):", re.IGNORECASE
)
_BEGINS_BLOCK = re.compile(r"[-+=:\[]|\d+[.)]$")


def code(text: str) -> str:
    """Return the text as inline code, between more backticks than it has in a row."""
    text = " ".join(text.split())
    fence = "`" * (1 + max(map(len, re.findall("`+", text)), default=0))
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{space}{text}{space}{fence}" if text else ""


def prose(text: str, line: str = "") -> str:
    """Return a text as a line of Markdown that shows it: inline code stays, and a word that is no mere word becomes it.

    `it reads a*b` becomes "it reads `a*b`". `line` is the line's beginning, such as the mark of a heading.
    """
    text, written, end = " ".join(text.split()), line, 0
    for token in _TOKEN.finditer(text):
        piece = token[0]
        is_word = token["ticks"] is None
        if is_word and (_CHANGED.search(piece) or (not written and _BEGINS_BLOCK.match(piece))):
            piece = code(piece)
        is_apart = token.start() > end or (written.endswith("`") and piece.startswith("`"))
        written += f" {piece}" if is_apart and written else piece
        end = token.end()
    return written


def cell(text: str) -> str:
    """Return a text as `prose` for a cell of a table, which a pipe would end, in inline code too."""
    return "&#124;".join(map(prose, text.split("|")))


def fence(text: str, language: str = "") -> str:
    """Return a program or a traceback as a block of code, between more backticks than it has in a row."""
    marks = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return f"{marks}{language}\n{text.rstrip()}\n{marks}"


def items(texts: Iterable[str]) -> str:
    """Return a list; "" of nothing."""
    return "\n".join(f"- {prose(text)}" for text in texts)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    lines = (f"| {' | '.join(map(cell, row))} |" for row in (head, *rows))
    return "\n".join((next(lines), f"| {' | '.join(['---'] * len(head))} |", *lines))


def folded(title: str, *blocks: str) -> str:
    """Return blocks that are shown on a click."""
    content = "\n\n".join(filter(None, blocks))
    return f"<details>\n<summary>{escape(' '.join(title.split()))}</summary>\n\n{content}\n\n</details>"


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, "" for the lines on top of a report, and its blocks.

    A report that is too long loses its heaviest sections, but none of weight 0.
    """

    title: str
    blocks: tuple[str, ...]
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


def sections_of(title: str, *blocks: str, level: int = 2, weight: int = 0) -> Iterable[Section]:
    """Return a section of the blocks that are not empty, or no section without any."""
    present = tuple(filter(None, blocks))
    return [Section(title, present, level, weight)] if present else []


def markdown(report: Report, limit: int = LIMIT) -> str:
    """Return the report in at most `limit` characters. The omitted sections are listed at its end."""
    sections, left_out = list(report.sections), list[str]()
    while len(text := _joined(report.title, sections, left_out)) > limit:
        heaviest = max(sections, key=lambda section: section.weight)
        if not heaviest.weight:
            break
        sections.remove(heaviest)
        left_out.append(heaviest.title)
    for longest in sorted((len(block) for section in sections for block in section.blocks), reverse=True):
        if len(text) <= limit:
            return text
        sections = [_with_shorter_blocks(section, longest) for section in sections]
        text = _joined(report.title, sections, left_out)
    note = "\n\nThe rest is in report.html.\n"
    return text if len(text) <= limit else text[: limit - len(note)] + note


def _with_shorter_blocks(section: Section, characters: int) -> Section:
    blocks = (block if len(block) < characters else _TOO_LONG for block in section.blocks)
    return replace(section, blocks=tuple(blocks))


def _joined(title: str, sections: Iterable[Section], left_out: Sequence[str] = ()) -> str:
    paragraphs = [prose(title, "# ")] if title else []
    for section in sections:
        heading = [f"{'#' * section.level} {prose(section.title)}"] if section.title else []
        paragraphs += [*heading, *section.blocks]
    if left_out:
        paragraphs += ["## Left out", "For its length this is in report.html alone:", items(left_out)]
    return "\n\n".join(paragraphs) + "\n"


def page(report: Report) -> str:
    """Return the report as an HTML document: the same Markdown, with colours and a button that copies the repro."""
    renderer = MarkdownIt("commonmark", {"highlight": _coloured}).enable("table")
    head, _, tail = Path(__file__).with_name("page.html").read_text(encoding="utf-8").partition("{content}")
    return (
        head.replace("{title}", escape(report.title))
        + str(renderer.render(_joined(report.title, report.sections)))
        + tail
    )


def _coloured(text: str, language: str, _: str) -> str:
    """Return a program as HTML, each token with a class; "" if it has no language: the renderer escapes it."""
    return highlight(text, get_lexer_by_name(language), HtmlFormatter(nowrap=True)) if language else ""


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
