"""How a compiled result parts from the eager one, and by what measure it is judged."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Aspect(str, Enum):
    """What about a result is not as in eager. Each can be switched off (`--ignore`)."""

    VALUES = "values"
    NON_FINITE = "non-finite"
    SHAPE = "shape"
    DTYPE = "dtype"
    STRIDE = "stride"
    DEVICE = "device"
    ALIASING = "aliasing"
    MUTATION = "mutation"
    GRADIENT = "gradient"
    NO_EXCEPTION = "no-exception"
    STRUCTURE = "structure"
    PREDICATE = "predicate"


@dataclass(frozen=True, slots=True)
class Difference:
    """One result that is not as it should be. `where` is `output 0`, `input x after the call`, `gradient of x`;
    `error` the compiled result's distance from the reference, `eager_error` eager's own, `noise` how far eager
    moves by itself (all absolute, largest element; None where that has no meaning); `sentence` says it in words.
    """

    aspect: Aspect
    where: str
    sentence: str
    error: float | None = None
    eager_error: float | None = None
    noise: float | None = None

    @property
    def is_of_backward(self) -> bool:
        """Whether it takes a backward pass to see it: a gradient may be wrong, NaN, or of another dtype or shape."""
        return self.aspect is Aspect.GRADIENT or self.where.startswith(("gradient", "the backward pass"))


@dataclass(frozen=True, slots=True)
class Tolerance:
    """The user's own measure: tolerances as torch.testing.assert_close takes them (both or none), aspects that do
    not count, and the text of a Python file whose `differs(compiled, eager)` decides instead of all that."""

    rtol: float | None = None
    atol: float | None = None
    ignored: tuple[Aspect, ...] = ()
    predicate: str = ""
