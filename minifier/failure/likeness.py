"""Further evidence that tells failures of one fingerprint apart: relative error, and function of death."""

from __future__ import annotations

import re
import sysconfig

from minifier.failure.fingerprint import Failure, Fingerprint
from minifier.failure.kinds import Kind

_MAX_PROPORTION_DROP = 100.0  # a failure whose proportion shrinks by a larger factor is another
_FRAME = re.compile(r'^\s*File "([^"\n]+)", line \d+, in (.+)$', re.MULTILINE)
_STDLIB_FOLDERS = tuple(filter(None, (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))))


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


def place_of_death(failure: Failure) -> tuple[str, ...]:
    """Return the innermost function at a signal, outside torch and Python, and its caller if from the same file.

    Empty if unknown."""
    if failure.fingerprint.kind is not Kind.SIGNAL:
        return ()
    frames = list(reversed(_FRAME.findall(failure.traceback)))
    for i, (file, function) in enumerate(frames):
        own = "/site-packages/" in file or not file.startswith(_STDLIB_FOLDERS)
        if own and "/torch/" not in file and not file.startswith("<"):
            return (function, *(caller for caller_file, caller in frames[i + 1 : i + 2] if caller_file == file))
    return ()


def is_alike(sought: Failure, seen: Failure) -> bool:
    """Tell whether a failure of the sought fingerprint can be the sought failure."""
    if any(a != b for a, b in zip(place_of_death(sought), place_of_death(seen), strict=False)):
        return False
    expected, actual = proportion(sought), proportion(seen)
    return expected is None or actual is None or actual >= expected / _MAX_PROPORTION_DROP


def raised_alike(one: Fingerprint, other: Fingerprint) -> bool:
    """Tell whether the same exceptions came from the same frames, whatever the messages say."""
    frames = [(each.stage, each.kind, each.types, each.raising, each.site) for each in (one, other)]
    return one.kind is Kind.EXCEPTION and frames[0] == frames[1]
