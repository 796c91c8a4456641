"""Removal of everything in a message that varies between graphs."""

from __future__ import annotations

import re

_MAX_WHOLE_LINES = 6  # of a longer message, only the first and the accusing line count
_MAX_CHARACTERS = 600
_MAX_END_CHARACTERS = 10_000  # read at each end of a message, because the patterns take linear time
# fx.Interpreter and Dynamo append text that begins with one of these.
_ADDED = ("\nWhile executing %", "\nOriginal traceback:", "\nfrom user code:", "\nSet TORCHDYNAMO_VERBOSE=1")
# A compiler's command line names files and may contain flags that depend on the graph.
_COMMAND, _HAS_ENDED = "Command ", (" returned non-zero exit status", " died with ")
_REPLACEMENTS = (
    (re.compile(r"0x[0-9a-fA-F]+"), "<address>"),
    (re.compile(r"(?:/[\w.+@-]+){2,}"), "<path>"),
    (re.compile(r"(?:torch\.Size\()?[\[(]\s*-?\d+(?:(?:\s*,\s*|\s+)-?\d+)*\s*,?\s*[\])]\)?"), "<shape>"),
    (re.compile(r"\b[us]\d+\b"), "<symbol>"),
    (re.compile(r"%[A-Za-z_]\w*"), "%<node>"),  # FX's notation of nodes
    (re.compile(r"(?<=[A-Za-z])_\d+\b"), ""),  # add_12 is add
    # Any number, except one that identifies the error.
    (re.compile(r"(?<!\berror[ =#])(?<!\bcode[ =#])(?<!\bstatus )\b\d[\d.]*(?:e[+-]?\d+)?\b"), "<number>"),
    (re.compile(r"\b(buf|arg|primals|tangents|tmp)\d+\b"), r"\1"),  # names by Inductor and AOTAutograd
    (re.compile(r"[ \t]+"), " "),
)
_QUOTED = re.compile("[\u2018'`].*?[\u2019'`]")  # gcc quotes with typographic marks
_TELLING = re.compile(
    r"\berror: |^\s*target: |Error: |FAILED|[Ff]ailed|[Uu]nsupported|[Nn]ot (?:supported|implemented)"
)
_SETS = re.compile(r"\{('[^'{}]*'(?:, '[^'{}]*')+)\}")  # their order varies between interpreters


def _telling_lines(text: str) -> str:
    """Return the first line of a long message, and the first that names an error, else the last.

    Long messages are a compiler's output or the dump of a graph."""
    lines = [line.strip() for line in text.splitlines()]
    accusing = [re.sub(r"^.*\berror: ", "error: ", line) for line in lines[1:] if _TELLING.search(line)] or lines[-1:]
    return "\n".join(lines[:1] + [_QUOTED.sub("<quoted>", line) for line in accusing[:1]])


def _without_command(text: str) -> str:
    start = text.find(_COMMAND)
    end = max(text.rfind(ended) for ended in _HAS_ENDED)
    return text if not -1 < start < end else f"{text[:start]}{_COMMAND}<command>{text[end:]}"


def normalise(message: str) -> str:
    """Return the message without numbers, addresses, paths, shapes, symbols and numbered names.

    A long message is reduced to the first line and the first accusing line (`error: ...`, `target: ...`). Digits
    inside a word stay: int8 is not int16.
    """
    if len(message) > 2 * _MAX_END_CHARACTERS:
        message = f"{message[:_MAX_END_CHARACTERS]}\n{message[-_MAX_END_CHARACTERS:]}"
    for added in _ADDED:
        message = message.partition(added)[0]
    message = _without_command(message).strip()
    if message.count("\n") >= _MAX_WHOLE_LINES or len(message) > _MAX_CHARACTERS:
        message = _telling_lines(message)
    message = _SETS.sub(lambda match: "{" + ", ".join(sorted(match.group(1).split(", "))) + "}", message)
    for pattern, name in _REPLACEMENTS:
        message = pattern.sub(name, message)
    return message.strip()[:_MAX_CHARACTERS]  # cut last, when paths no longer affect the length


def words(message: str) -> list[str]:
    """Split the message into identifiers (with dots), placeholders and other single characters."""
    return re.findall(r"<\w+>|[A-Za-z_][\w.]*[\w]|[A-Za-z_]|\S", message)
