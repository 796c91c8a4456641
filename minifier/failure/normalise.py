"""A message with all that varies from graph to graph taken out of it."""

from __future__ import annotations

import re

_WHOLE = 6  # messages of more lines than this are judged by the lines that carry the meaning
_LONGEST = 600

_ENDS = 10_000  # characters looked at, of each end of a message; every pattern below takes time as they grow

# What follows one of these at the beginning of a line was added on the way: by fx.Interpreter, and by Dynamo.
_ADDED = ("\nWhile executing %", "\nOriginal traceback:", "\nfrom user code:", "\nSet TORCHDYNAMO_VERBOSE=1")
# A compiler's command line is no part of the failure: it names files, and flags may follow the graph.
_COMMAND, _HAS_ENDED = "Command ", (" returned non-zero exit status", " died with ")
_REPLACEMENTS = (
    (re.compile(r"0x[0-9a-fA-F]+"), "<address>"),
    (re.compile(r"(?:/[\w.+@-]+){2,}"), "<path>"),
    (re.compile(r"(?:torch\.Size\()?[\[(]\s*-?\d+(?:(?:\s*,\s*|\s+)-?\d+)*\s*,?\s*[\])]\)?"), "<shape>"),
    (re.compile(r"\b[us]\d+\b"), "<symbol>"),
    (re.compile(r"%[A-Za-z_]\w*"), "%<node>"),  # as FX prints nodes
    (re.compile(r"(?<=[A-Za-z])_\d+\b"), ""),  # add_12 is add
    # The number of an error says which one it is.
    (re.compile(r"(?<!\berror[ =#])(?<!\bcode[ =#])(?<!\bstatus )\b\d[\d.]*(?:e[+-]?\d+)?\b"), "<number>"),
    (re.compile(r"\b(buf|arg|primals|tangents|tmp)\d+\b"), r"\1"),  # inductor's and AOTAutograd's own names
    (re.compile(r"[ \t]+"), " "),
)
_QUOTED = re.compile("[\u2018'`].*?[\u2019'`]")  # gcc quotes with typographic marks
_TELLING = re.compile(
    r"\berror: |^\s*target: |Error: |FAILED|[Ff]ailed|[Uu]nsupported|[Nn]ot (?:supported|implemented)"
)
_SETS = re.compile(r"\{('[^'{}]*'(?:, '[^'{}]*')+)\}")  # whose order differs from interpreter to interpreter


def _telling_lines(text: str) -> str:
    """Of a long message (a compiler's output, a dump of a graph) the first line and what it accuses; the
    last line where nothing is accused."""
    lines = [line.strip() for line in text.splitlines()]
    accused = [re.sub(r"^.*\berror: ", "error: ", line) for line in lines[1:] if _TELLING.search(line)] or lines[-1:]
    return "\n".join(lines[:1] + [_QUOTED.sub("<quoted>", line) for line in accused[:1]])


def _without_command(text: str) -> str:
    start = text.find(_COMMAND)
    end = max(text.rfind(ended) for ended in _HAS_ENDED)
    return text if not -1 < start < end else f"{text[:start]}{_COMMAND}<command>{text[end:]}"


def normalise(message: str) -> str:
    """The message without numbers, addresses, paths, shapes, symbols and numbered names.

    Of a message longer than six lines only the first line and the first that accuses something
    (`error: ...`, `target: ...`, or else the last) stay: the rest of a compiler's output varies with the
    graph. Digits inside a word stay: int8 is not int16.
    """
    if len(message) > 2 * _ENDS:
        message = f"{message[:_ENDS]}\n{message[-_ENDS:]}"
    for added in _ADDED:
        message = message.partition(added)[0]
    message = _without_command(message).strip()
    if message.count("\n") >= _WHOLE or len(message) > _LONGEST:
        message = _telling_lines(message)
    message = _SETS.sub(lambda found: "{" + ", ".join(sorted(found.group(1).split(", "))) + "}", message)
    for pattern, name in _REPLACEMENTS:
        message = pattern.sub(name, message)
    return message.strip()[:_LONGEST]  # cut when paths of any length have become alike


def words(message: str) -> list[str]:
    """The message in tokens: identifiers (dots included), placeholders, and single other characters."""
    return re.findall(r"<\w+>|[A-Za-z_][\w.]*[\w]|[A-Za-z_]|\S", message)
