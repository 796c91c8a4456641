"""Other failures that the reduction of a script meets: the shortest script of each is kept."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from minifier.failure import Failure, same


@dataclass
class OtherScript:
    """A failure of torch.compile that is not sought, with the shortest script that showed it."""

    failure: Failure
    source: str
    sightings: int = 1


def keep_aside(others: list[OtherScript], source: str, failure: Failure) -> None:
    """Add the failure to `others`, or count another sighting and keep the shorter script."""
    for other in others:
        if same(other.failure.fingerprint, failure.fingerprint):
            other.sightings += 1
            if len(source) < len(other.source):
                other.source, other.failure = source, failure
            return
    others.append(OtherScript(failure, source))


def write_others(others: list[OtherScript], folder: Path) -> None:
    """Write the scripts as 1.py, 2.py, ..., each with its failure in the last comment; the most frequent one first."""
    for number, other in enumerate(sorted(others, key=lambda other: -other.sightings), 1):
        folder.mkdir(parents=True, exist_ok=True)
        text = f"{other.source.rstrip()}\n\n# {other.failure.line}\n"
        (folder / f"{number}.py").write_text(text, encoding="utf-8", errors="backslashreplace")
