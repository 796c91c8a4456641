"""Rates of a flaky failure, from a number of tries."""

from __future__ import annotations

import math

_Z_ONE_SIDED_90 = 1.28


def surely(shown: int, tries: int) -> float:
    """Return a lower bound of a failure's rate that holds nine times in ten.
    The bound is the lower end of Wilson's interval (Wilson 1927, J. Am. Stat. Assoc. 22, 209)."""
    rate, spread = shown / tries, _Z_ONE_SIDED_90**2 / tries
    middle = rate + spread / 2
    return (middle - math.sqrt(rate * (1 - rate) * spread + spread**2 / 4)) / (1 + spread)
