"""Observation, identity and comparison of failures."""

from minifier.data.failure.fingerprint import Failure, Fingerprint, same
from minifier.data.failure.frames import Frame
from minifier.data.failure.kinds import Aspect, Difference, ElementPair, Kind, Stage, Tolerance, Verdict
from minifier.data.failure.likeness import matches

__all__ = [
    "Aspect",
    "Difference",
    "ElementPair",
    "Failure",
    "Fingerprint",
    "Frame",
    "Kind",
    "Stage",
    "Tolerance",
    "Verdict",
    "matches",
    "same",
]
