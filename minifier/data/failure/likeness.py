"""How alike two failures are: evidence beyond the fingerprint, and in what respects they differ."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher

from minifier.data.failure.fingerprint import DAMAGED_HEAP, Failure, Fingerprint
from minifier.data.failure.frames import Frame, is_beside_torch
from minifier.data.failure.kinds import Kind, Stage

_MAX_PROPORTION_DROP = 100.0  # a failure whose proportion shrinks by a larger factor is another,
_CLEAR_PROPORTION = 1e12  # unless it is still as large: more than rounding to float32 in the place of float64
_FRAME = re.compile(r'^\s*File "([^"\n]+)", line \d+, in (.+)$', re.MULTILINE)


def proportion(failure: Failure) -> float | None:
    """Return the worst error in the failure's aspect, in multiples of eager's error or noise; None if unknown.

    Later layers increase both alike."""
    ratios = []
    for difference in failure.differences:
        eager = max(difference.eager_error or 0.0, difference.noise or 0.0)
        if difference.aspect.value == failure.fingerprint.message and difference.error is not None and eager > 0:
            ratios.append(difference.error / eager)
    return max(ratios, default=None)


def eager_is_not_finite(failure: Failure) -> bool:
    """Tell whether a wrong result of the failure is one in which eager's own has NaN."""
    return any(difference.has_nan for difference in failure.differences)


def place_of_death(failure: Failure) -> tuple[str, ...]:
    """Return the innermost function at a signal, outside torch and Python, and its caller if from the same file.

    Empty if unknown, or if a damaged heap makes it a chance."""
    if failure.fingerprint.kind is not Kind.SIGNAL or failure.fingerprint.native == DAMAGED_HEAP:
        return ()
    frames = list(reversed(_FRAME.findall(failure.traceback)))
    for i, (file, function) in enumerate(frames):
        if is_beside_torch(file):
            return (function, *(caller for caller_file, caller in frames[i + 1 : i + 2] if caller_file == file))
    return ()


def is_alike(sought: Failure, seen: Failure) -> bool:
    """Tell whether a failure of the sought fingerprint can be the sought failure."""
    if any(a != b for a, b in zip(place_of_death(sought), place_of_death(seen), strict=False)):
        return False
    if eager_is_not_finite(seen) and not eager_is_not_finite(sought):  # a program that a reader takes for broken
        return False
    expected, actual = proportion(sought), proportion(seen)
    return expected is None or actual is None or actual >= min(expected / _MAX_PROPORTION_DROP, _CLEAR_PROPORTION)


def matches(sought: Fingerprint, seen: Failure, pattern: str) -> bool:
    """Tell whether stage and kind are equal and the user's pattern occurs in the message."""
    actual, texts = seen.fingerprint, (seen.message, seen.fingerprint.message)
    return (sought.stage, sought.kind) == (actual.stage, actual.kind) and any(re.search(pattern, t) for t in texts)


def raised_alike(one: Fingerprint, other: Fingerprint) -> bool:
    """Tell whether both are exceptions of the same types, raised in the same functions. Messages are not compared."""
    frames = [(each.stage, each.kind, each.types, each.raising, each.site) for each in (one, other)]
    is_placed = (one.raising or one.site) is not None
    return one.kind is Kind.EXCEPTION and is_placed and frames[0] == frames[1]


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
