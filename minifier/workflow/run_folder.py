"""Where results go that nobody named a folder for."""

from __future__ import annotations

import itertools
from pathlib import Path

RESULTS = Path("minify-out")


def next_place(name: str, results: Path = RESULTS) -> Path:
    """`minify-out/<name>-<n>` with the first n for which nothing is there; nothing is made."""
    return next(place for n in itertools.count(1) if not (place := results / f"{name}-{n}").exists())
