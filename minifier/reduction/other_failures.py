"""Other failures that a reduction meets."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from minifier.case import Case
from minifier.failure import Failure, same


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
            "message": self.failure.message,
            "where": fingerprint.where,
            "stage": fingerprint.stage.value,
            "kind": fingerprint.kind.value,
            "sightings": self.sightings,
            "ops": len(self.case.graph.ops),
        }


def keep_aside(others: list[Other], case: Case, failure: Failure) -> None:
    """Add the failure to `others`, or count another sighting and keep the smaller Case."""
    for other in others:
        if same(other.failure.fingerprint, failure.fingerprint):
            other.sightings += 1
            if len(case.graph.ops) < len(other.case.graph.ops):
                other.case, other.failure = replace(case, failure=failure), failure
            return
    others.append(Other(failure, replace(case, failure=failure)))
