"""How a failure is observed, identified and compared."""

from minifier.failure.difference import Aspect, Difference, Measure
from minifier.failure.fingerprint import Failure, Fingerprint, Frame, matches, same
from minifier.failure.kinds import Kind, Stage, Verdict

__all__ = [
    "Aspect",
    "Difference",
    "Failure",
    "Fingerprint",
    "Frame",
    "Kind",
    "Measure",
    "Stage",
    "Verdict",
    "matches",
    "same",
]
