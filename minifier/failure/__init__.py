"""How a failure is observed, identified and compared."""

from minifier.failure.fingerprint import Failure, Fingerprint, Frame, same
from minifier.failure.kinds import Kind, Stage, Verdict

__all__ = ["Failure", "Fingerprint", "Frame", "Kind", "Stage", "Verdict", "same"]
