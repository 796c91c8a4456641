"""Other failures that a reduction meets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from minifier.case import Case
from minifier.case.source_names import source_names
from minifier.failure import Failure, Verdict, same

_MIN_CANDIDATES = 3  # of a pass that is said to show other failures every time


@dataclass
class Other:
    """A failure that is not sought, with the smallest Case that showed it."""

    failure: Failure
    case: Case
    sightings: int = 1

    def described(self) -> dict[str, Any]:
        """Return the failure's entry in `result.json`."""
        fingerprint = self.failure.fingerprint
        return {
            "type": self.failure.type,
            "message": self.failure.named(source_names(self.case.graph)).message,
            "where": fingerprint.where,
            "stage": fingerprint.stage.value,
            "kind": fingerprint.kind.value,
            "sightings": self.sightings,
            "ops": len(self.case.graph.ops),
        }


def hidden_by_others(verdicts: Mapping[str, Counter[Verdict]]) -> tuple[str, ...]:
    """Return the passes whose candidates all showed other failures, which may hide the sought one."""
    some = [(name, counts) for name, counts in verdicts.items() if counts[Verdict.OTHER] >= _MIN_CANDIDATES]
    return tuple(name for name, counts in some if counts[Verdict.OTHER] == counts.total())


def keep_aside(others: list[Other], case: Case, failure: Failure) -> None:
    """Add the failure to `others`, or count another sighting and keep the smaller Case."""
    for other in others:
        if same(other.failure.fingerprint, failure.fingerprint):
            other.sightings += 1
            if len(case.graph.ops) < len(other.case.graph.ops):
                other.case, other.failure = replace(case, failure=failure), failure
            return
    others.append(Other(failure, replace(case, failure=failure)))
