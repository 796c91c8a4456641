"""Stage and kind of a failure, the differences that a wrong result has, and the verdict on a candidate."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum

from minifier.data.fields import Line, NotNegative, Source, Text


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


class Aspect(str, Enum):
    """A property in which a result differs from eager's, the worst for a user first. `--ignore` takes these names."""

    PREDICATE = "predicate"
    NO_EXCEPTION = "no-exception"
    NON_FINITE = "non-finite"
    VALUES = "values"
    GRADIENT = "gradient"
    AUTOGRAD = "autograd"
    MUTATION = "mutation"
    OVERWRITTEN = "overwritten"
    SHAPE = "shape"
    STRUCTURE = "structure"
    DTYPE = "dtype"
    DEVICE = "device"
    ALIASING = "aliasing"
    STRIDE = "stride"


_INPUT = re.compile(r"\b(input|gradient of) ([A-Za-z_]\w*)")


def with_names(text: str, names: Mapping[str, str]) -> str:
    """Return the description of a difference with these names in the place of placeholders' names."""
    return _INPUT.sub(lambda match: f"{match[1]} {names.get(match[2], match[2])}", text)


@dataclass(frozen=True, slots=True)
class ElementPair:
    """An element of the compiled result and of eager's, as decimal numbers.

    ulps: their distance, in units in the last place of eager's element; None without meaning.
    """

    index: tuple[int, ...]
    compiled: str
    eager: str
    ulps: float | None = None


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference between a result and eager's.

    where: for example `output 0`, `input x after the call`, `gradient of x`.
    sentence: the description for the user.
    error, eager_error: distance of the compiled and the eager result from the reference.
    noise: the change of eager's result under a rounding error.
    elements: the elements that are furthest from eager's.
    has_nan: eager's result has NaN.
    exception: what eager raises, type and first line, where the compiled code does not.

    Distances are absolute, of the worst element; None if meaningless.
    """

    aspect: Aspect
    where: Line
    sentence: Text
    error: float | None = None
    eager_error: float | None = None
    noise: float | None = None
    elements: tuple[ElementPair, ...] = ()
    has_nan: bool = False
    exception: Text = ""

    def named(self, names: Mapping[str, str]) -> Difference:
        """Return the difference with these names in the place of placeholders' names."""
        return replace(self, where=with_names(self.where, names), sentence=with_names(self.sentence, names))

    @property
    def is_of_backward(self) -> bool:
        """Whether only a backward pass shows the difference, in any property of a gradient."""
        return self.aspect is Aspect.GRADIENT or self.where.startswith(("gradient", "the backward pass"))


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The user's own tolerance.

    rtol, atol: as for torch.testing.assert_close, both or neither.
    ignored: aspects that do not count.
    predicate: source of a Python file whose `differs(compiled, eager)` replaces all other criteria.
    strict: large differences count even if eager itself varies as much.
    """

    rtol: NotNegative | None = None
    atol: NotNegative | None = None
    ignored: tuple[Aspect, ...] = ()
    predicate: Source = ""
    strict: bool = False
