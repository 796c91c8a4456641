"""Differences between compiled and eager results, and their tolerance."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Aspect(str, Enum):
    """A property in which a result differs from eager's. `--ignore` takes these names."""

    VALUES = "values"
    NON_FINITE = "non-finite"
    SHAPE = "shape"
    DTYPE = "dtype"
    STRIDE = "stride"
    DEVICE = "device"
    ALIASING = "aliasing"
    MUTATION = "mutation"
    GRADIENT = "gradient"
    AUTOGRAD = "autograd"
    NO_EXCEPTION = "no-exception"
    STRUCTURE = "structure"
    PREDICATE = "predicate"


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference between a result and eager's.

    where: for example `output 0`, `input x after the call`, `gradient of x`.
    sentence: the description for the user.
    error, eager_error: distance of the compiled and the eager result from the reference.
    noise: the change of eager's result under a rounding error.

    Distances are absolute, of the worst element; None if meaningless.
    """

    aspect: Aspect
    where: str
    sentence: str
    error: float | None = None
    eager_error: float | None = None
    noise: float | None = None

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

    rtol: float | None = None
    atol: float | None = None
    ignored: tuple[Aspect, ...] = ()
    predicate: str = ""
    strict: bool = False
