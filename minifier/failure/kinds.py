"""The closed vocabularies of a failure: where it happened, what it was, and how a candidate did."""

from __future__ import annotations

from enum import Enum


class Stage(str, Enum):
    """The step of torch.compile in which the failure showed."""

    CAPTURE = "capture"
    COMPILE = "compile"
    RUN = "run"
    BACKWARD_COMPILE = "backward-compile"
    BACKWARD_RUN = "backward-run"
    COMPARE = "compare"

    @property
    def compiles(self) -> bool:
        """Whether it is one of compiling: values do not matter then, shapes and types do."""
        return self in (Stage.COMPILE, Stage.BACKWARD_COMPILE)


class Kind(str, Enum):
    """What the failure was."""

    EXCEPTION = "exception"
    SIGNAL = "signal"
    EXIT = "exit"
    TIMEOUT = "timeout"
    OUT_OF_MEMORY = "out-of-memory"
    WRONG_RESULT = "wrong-result"
    NON_FINITE = "non-finite"
    SILENT_FALLBACK = "silent-fallback"


class Verdict(str, Enum):
    """How a candidate did, against the failure that is sought."""

    SAME = "SAME"
    OTHER = "OTHER"
    PASS = "PASS"
    INVALID = "INVALID"
    UNRESOLVED = "UNRESOLVED"
