"""Observation, identity and comparison of failures."""

from minifier.failure.difference import Aspect, Difference, ElementPair, Tolerance
from minifier.failure.fingerprint import Failure, Fingerprint, same
from minifier.failure.frames import Frame
from minifier.failure.kinds import Kind, Stage, Verdict
from minifier.failure.likeness import matches

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
