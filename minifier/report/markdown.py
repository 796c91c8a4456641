"""report.md, short enough for an issue tracker, and report.html."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import replace
from functools import singledispatch
from html import escape

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name

from minifier.report.blocks import Block, Code, Drawing, Folded, Items, Report, Section, Table, Text, cut
from minifier.report.inline import cell, inert, spans

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
        if blocks:
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
    """Return the report as an HTML document."""
    return _environment().get_template("page.html.jinja").render(report=report)


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("minifier", "report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
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
