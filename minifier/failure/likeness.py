"""What tells two failures of one fingerprint apart, where there is more to see than that: how far a wrong result is
off, and in which function a process died."""

from __future__ import annotations

import re
import sysconfig

from minifier.failure.fingerprint import Failure
from minifier.failure.kinds import Kind

_LESS = 100.0  # an error so many times less out of proportion is another
_FRAME = re.compile(r'^\s*File "([^"\n]+)", line \d+, in (.+)$', re.MULTILINE)
_OF_PYTHON = tuple(filter(None, (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))))


def proportion(failure: Failure) -> float | None:
    """How many times eager's own error, or what a rounding error moves eager by, the worst difference of the kind that
    was told is; None where that cannot be said. Layers that follow make both larger."""
    if not failure.differences:
        return None
    aspect = failure.differences[0].aspect
    found = []
    for each in failure.differences:
        own = max(each.eager_error or 0.0, each.noise or 0.0)
        if each.aspect is aspect and each.error is not None and own > 0:
            found.append(each.error / own)
    return max(found, default=None)


def place_of_death(failure: Failure) -> tuple[str, ...]:
    """The innermost function, of those that are not torch's or Python's, in which a signal met the process, and the one
    of the same file that called it; empty where nobody has seen it."""
    if failure.fingerprint.kind is not Kind.SIGNAL:
        return ()
    frames = list(reversed(_FRAME.findall(failure.traceback)))
    for i, (file, function) in enumerate(frames):
        own = "/site-packages/" in file or not file.startswith(_OF_PYTHON)
        if own and "/torch/" not in file and not file.startswith("<"):
            return (function, *(caller for home, caller in frames[i + 1 : i + 2] if home == file))
    return ()


def is_alike(sought: Failure, seen: Failure) -> bool:
    """Whether a failure of the fingerprint that is sought can be the one that is sought."""
    died, dies = place_of_death(sought), place_of_death(seen)
    if any(one != other for one, other in zip(died, dies, strict=False)):
        return False
    wanted, found = proportion(sought), proportion(seen)
    return wanted is None or found is None or found >= wanted / _LESS
