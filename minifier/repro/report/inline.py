"""Inline code in the report's texts, and texts that Markdown and issue trackers leave as they are.

Backticks enclose `code`. Messages and names in a text may hold anything: markup, links, mentions of people.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_SPAN = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
# Words that issue trackers turn into links: mentions, references to issues, addresses.
_LINKED = re.compile(r"@|#\d|\bGH-\d|://|\bwww\.|\bmailto:|\bxmpp:", re.IGNORECASE)
_MARKUP = re.compile(r"[\\`*<$]|(?<![^\W_])_|_(?![^\W_])|~(?=~)|(?<=~)~|!(?=\[)|\](?=[(\[:])|&(?=#?\w+;)")
_LINE_START = re.compile(
    r"^[ \t]*(?:([-+=>#|~:]|\[(?=[ xX]\]|(?s:.*)\]:)|\d+(?=[.)](?:\s|$)))|(?<=[ \t]))", re.MULTILINE
)
_PIPE = re.compile(r"(\s*\|\s*)")
_EDGES = re.compile(r"^([(\[{\"'*]*)(.*?)([)\]}\"'*.,;:!?]*)$", re.DOTALL)


def code(text: str) -> str:
    """Return the text as inline code, between more backticks than it has in a row."""
    text = " ".join(text.split())
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{space}{text}{space}{fence}" if text else ""


def spans(text: str) -> Iterator[tuple[bool, str]]:
    """Yield (whether it is inline code, its characters without the backticks) of a text, in order."""
    position = 0
    for match in _SPAN.finditer(text):
        if match.start() > position:
            yield False, text[position : match.start()]
        content = match[2]
        if content.startswith(" ") and content.endswith(" ") and content.strip():
            content = content[1:-1]
        yield True, content
        position = match.end()
    if position < len(text):
        yield False, text[position:]


def escaped(text: str) -> str:
    """Return prose, or a part of it, as Markdown that shows exactly these characters."""
    return _MARKUP.sub(lambda match: f"\\{match[0]}", text)


def inert(text: str) -> str:
    """Return a text as Markdown: its inline code, and the rest without markup, HTML, links and mentions."""
    return _LINE_START.sub(_as_prose, _written(_pieces(text)))


def cell(text: str) -> str:
    """Return a text as the cell of a table. A pipe would end the cell, in inline code too: it is written as prose."""
    pieces = (piece for each in _pieces(" ".join(text.split())) for piece in _around_pipes(*each))
    return _written(pieces).replace("|", "&#124;")


def _around_pipes(is_code: bool, content: str) -> Iterator[tuple[bool, str]]:
    for part in _PIPE.split(content):
        yield is_code and "|" not in part, part


def _written(pieces: Iterable[tuple[bool, str]]) -> str:
    written, after_code = "", False
    for is_code, content in pieces:
        # Blank code is a space: without one, its neighbours could be read as one word, as `:` and `//` of an address.
        piece = (code(content) or " " * bool(content)) if is_code else escaped(content)
        written += f" {piece}" if is_code and after_code else piece
        after_code = is_code if content else after_code
    return written


def _as_prose(match: re.Match[str]) -> str:
    """Return the begin of a line that is no heading, list, quote, table or fence."""
    first: str = match[1] or ""
    return f"{first}\\" if first.isdigit() else f"\\{first}" if first else ""


def _pieces(text: str) -> Iterator[tuple[bool, str]]:
    """Yield what `spans` does, with the words as code that a tracker would turn into links."""
    for is_code, content in spans(text):
        if is_code or not _LINKED.search(content):
            yield is_code, content
            continue
        for word in re.split(r"(\s+)", content):
            match = _EDGES.match(word)
            if match is None or not _LINKED.search(word):
                yield False, word
                continue
            yield False, match[1]
            yield True, match[2] or word
            yield False, match[3]
