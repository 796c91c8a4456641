"""Stage and kind of a failure, and the verdict on a candidate."""

from __future__ import annotations

from enum import Enum


class Stage(str, Enum):
    """The step of torch.compile that fails."""

    CAPTURE = "capture"
    COMPILE = "compile"
    RUN = "run"
    BACKWARD_COMPILE = "backward-compile"
    BACKWARD_RUN = "backward-run"
    COMPARE = "compare"

    @property
    def compiles(self) -> bool:
        """Whether compiling fails, which depends on shapes and dtypes, not on values."""
        return self in (Stage.COMPILE, Stage.BACKWARD_COMPILE)


class Kind(str, Enum):
    """The kind of a failure."""

    EXCEPTION = "exception"
    SIGNAL = "signal"
    EXIT = "exit"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out-of-memory"
    WRONG_RESULT = "wrong-result"
    NON_FINITE = "non-finite"
    SILENT_FALLBACK = "silent-fallback"


class Verdict(str, Enum):
    """The outcome of a candidate, compared with the sought failure."""

    SAME = "SAME"
    OTHER = "OTHER"
    PASS = "PASS"
    INVALID = "INVALID"
    UNRESOLVED = "UNRESOLVED"
