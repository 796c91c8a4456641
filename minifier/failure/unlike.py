"""Tell in which respects a failure that was seen is not the sought one, and which option may help."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher

from minifier.failure.fingerprint import Failure, Fingerprint
from minifier.failure.frames import Frame
from minifier.failure.kinds import Kind, Stage

_MIN_SHARED_CHARACTERS = 8  # of two messages, for a pattern that is worth naming
_MAX_CHARACTERS = 200
_MAX_PATTERN_CHARACTERS = 80


def unlike(sought: Fingerprint, seen: Failure | None, any_stage: bool = False) -> str:
    """Return a diff of the sought failure and the one that was seen; "" if they do not differ.

    `seen` is None if nothing failed. With `any_stage` the stages are not compared.
    """
    rows = dict(_rows(sought))
    other = dict(_rows(seen.fingerprint)) if seen is not None else {"failure": "none"}
    ignored = {"stage"} if any_stage else set()
    names = [name for name in {**rows, **other} if name not in ignored and rows.get(name) != other.get(name)]
    width = max(map(len, names), default=0)
    lines = []
    for name in names:
        lines += [f"- {name:{width}}  {rows[name]}"] if name in rows else []
        lines += [f"+ {name:{width}}  {other[name]}"] if name in other else []
    return "\n".join(lines)


def _rows(fingerprint: Fingerprint) -> Iterator[tuple[str, str]]:
    """Yield what identifies a failure, by its name for the user."""
    yield "stage", fingerprint.stage.value
    yield "kind", fingerprint.kind.value
    texts = {
        "type": ", then ".join(fingerprint.types),
        "message": " / ".join(fingerprint.message.split("\n")),
        "raised in": _named(fingerprint.raising),
        "backend's function": _named(fingerprint.site),
        "native code": fingerprint.native,
        "not supported": fingerprint.graph_break,
    }
    for name, text in texts.items():
        if text:
            yield name, text if len(text) <= _MAX_CHARACTERS else f"{text[:_MAX_CHARACTERS]} ..."


def _named(frame: Frame | None) -> str:
    return f"{frame.module}.{frame.function}" if frame is not None else ""


def advice(sought: Fingerprint, seen: Failure | None) -> str:
    """Return a sentence on the option of `run` and `reduce` that may make both the same; "" if there is none."""
    if seen is None and sought.stage is Stage.COMPARE:
        return "If smaller differences count for you, give --compare strict, or --rtol and --atol."
    if seen is None and sought.kind is Kind.TIMEOUT:
        return "If it only computes for long, give a shorter --timeout SECONDS."
    if seen is None:
        return ""
    kind = seen.fingerprint.kind
    if kind is Kind.TIMEOUT and sought.kind is not kind:
        return "If it only takes longer here, give --timeout SECONDS."
    if kind is Kind.OUT_OF_MEMORY and sought.kind is not kind:
        return "If it only takes more memory here, give --memory MIB."
    if (sought.stage, sought.kind) != (seen.fingerprint.stage, kind) or kind is not Kind.EXCEPTION:
        return ""
    return f"If both are the same failure to you, give --match {_shared(sought.message, seen.fingerprint.message)}."


def _shared(one: str, other: str) -> str:
    """Return a pattern, quoted for the shell, that both messages match; REGEX if they share little."""
    matcher = SequenceMatcher(None, one, other, autojunk=False)
    longest = matcher.find_longest_match()
    text = one[longest.a : longest.a + longest.size].strip()[:_MAX_PATTERN_CHARACTERS].strip()
    if len(text) < _MIN_SHARED_CHARACTERS or "\n" in text:
        return "REGEX, which both messages match"
    return "'" + re.escape(text).replace("\\ ", " ").replace("'", ".") + "'"
