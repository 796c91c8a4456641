"""report.md: the report as Markdown, short enough for an issue tracker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import singledispatch

from minifier.report.blocks import Block, Code, Drawing, Folded, Items, Report, Section, Table, Text, cut

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
    paragraphs = [f"# {title}\n"]
    for section in sections:
        blocks = [text for text in map(_block, section.blocks) if text]
        if blocks:
            paragraphs += [f"{'#' * section.level} {section.title}\n", *blocks]
    if left_out:
        note = "For its length this is in report.html alone:\n"
        paragraphs += ["## Left out\n", note, _block(Items(tuple(left_out)))]
    return "\n".join(paragraphs)


def _with_less(section: Section, lines: int) -> Section:
    def less(block: Block) -> Block:
        if isinstance(block, Folded):
            return replace(block, code=replace(block.code, text=cut(block.code.text, lines)))
        if isinstance(block, Code) and block.language == "python" and block.text.count("\n") > lines:
            return Text("It is too long to be shown here: `repro.py` in bundle.zip.")  # half a program is useless
        return replace(block, text=cut(block.text, lines)) if isinstance(block, Code) else block

    return replace(section, blocks=tuple(map(less, section.blocks)))


@singledispatch
def _block(block: Block) -> str:
    raise TypeError(block)


@_block.register
def _(block: Text) -> str:
    return f"{block.text}\n"


@_block.register
def _(block: Code) -> str:
    fence = "```"
    while fence in block.text:
        fence += "`"
    return f"{fence}{block.language}\n{block.text.rstrip()}\n{fence}\n"


@_block.register
def _(block: Items) -> str:
    return "".join(f"- {item}\n" for item in block.items)


@_block.register
def _(block: Table) -> str:
    rows = (block.head, ("---",) * len(block.head), *block.rows)
    return "".join(f"| {' | '.join(map(_cell, row))} |\n" for row in rows)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


@_block.register
def _(block: Drawing) -> str:
    return _block(Code(block.mermaid, "mermaid")) if block.mermaid else ""


@_block.register
def _(block: Folded) -> str:
    return f"<details>\n<summary>{block.title}</summary>\n\n{_block(block.code)}\n</details>\n"
