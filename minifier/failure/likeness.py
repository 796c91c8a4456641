"""Further evidence that tells failures of the same fingerprint apart: relative error, and function of death."""

from __future__ import annotations

import re

from minifier.failure.fingerprint import Failure, Fingerprint
from minifier.failure.frames import STDLIB_FOLDERS
from minifier.failure.kinds import Kind

_MAX_PROPORTION_DROP = 100.0  # a failure whose proportion shrinks by a larger factor is another
_FRAME = re.compile(r'^\s*File "([^"\n]+)", line \d+, in (.+)$', re.MULTILINE)


def proportion(failure: Failure) -> float | None:
    """Return the worst error in the failure's aspect, in multiples of eager's error or noise; None if unknown.

    Later layers increase both alike."""
    aspect = failure.fingerprint.message
    ratios = []
    for difference in failure.differences:
        eager = max(difference.eager_error or 0.0, difference.noise or 0.0)
        if difference.aspect.value == aspect and difference.error is not None and eager > 0:
            ratios.append(difference.error / eager)
    return max(ratios, default=None)


def eager_is_not_finite(failure: Failure) -> bool:
    """Tell whether a wrong result of the failure is one in which eager's own has NaN."""
    return any(difference.has_nan for difference in failure.differences)


def place_of_death(failure: Failure) -> tuple[str, ...]:
    """Return the innermost function at a signal, outside torch and Python, and its caller if from the same file.

    Empty if unknown."""
    if failure.fingerprint.kind is not Kind.SIGNAL:
        return ()
    frames = list(reversed(_FRAME.findall(failure.traceback)))
    for i, (file, function) in enumerate(frames):
        own = "/site-packages/" in file or not file.startswith(STDLIB_FOLDERS)
        if own and "/torch/" not in file and not file.startswith("<"):
            return (function, *(caller for caller_file, caller in frames[i + 1 : i + 2] if caller_file == file))
    return ()


def is_alike(sought: Failure, seen: Failure) -> bool:
    """Tell whether a failure of the sought fingerprint can be the sought failure."""
    if any(a != b for a, b in zip(place_of_death(sought), place_of_death(seen), strict=False)):
        return False
    if eager_is_not_finite(seen) and not eager_is_not_finite(sought):  # a program that a reader takes for broken
        return False
    expected, actual = proportion(sought), proportion(seen)
    return expected is None or actual is None or actual >= expected / _MAX_PROPORTION_DROP


def matches(sought: Fingerprint, seen: Failure, pattern: str) -> bool:
    """Tell whether stage and kind are equal and the user's pattern occurs in the message."""
    actual, texts = seen.fingerprint, (seen.message, seen.fingerprint.message)
    return (sought.stage, sought.kind) == (actual.stage, actual.kind) and any(re.search(pattern, t) for t in texts)


def raised_alike(one: Fingerprint, other: Fingerprint) -> bool:
    """Tell whether both are exceptions of the same types, raised in the same functions. Messages are not compared."""
    frames = [(each.stage, each.kind, each.types, each.raising, each.site) for each in (one, other)]
    is_placed = (one.raising or one.site) is not None
    return one.kind is Kind.EXCEPTION and is_placed and frames[0] == frames[1]
