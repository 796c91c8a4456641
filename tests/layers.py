"""Which parameters of a slow test run in `make test`, and which in `make soak` alone."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

SOAK = pytest.mark.soak


def sampled(parameters: Iterable[Any], step: int = 3) -> list[Any]:
    """Return the parameters with all but every `step`-th one marked for soak."""
    return [
        each if n % step == 0 else pytest.param(*(each if isinstance(each, tuple) else (each,)), marks=SOAK)
        for n, each in enumerate(parameters)
    ]
