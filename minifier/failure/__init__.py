"""How a failure is observed, identified and compared."""

from minifier.failure.fingerprint import Failure, Fingerprint, Frame, matches, same
from minifier.failure.kinds import Kind, Stage, Verdict

__all__ = ["Failure", "Fingerprint", "Frame", "Kind", "Stage", "Verdict", "matches", "same"]
