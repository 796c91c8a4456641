"""The tolerances of a repro: arguments of torch.testing.assert_close."""

from __future__ import annotations

import math
from enum import Enum

from minifier.case import Case, TensorMeta
from minifier.case.graph import refs_in
from minifier.failure import Aspect, Difference

# assert_close's default rtol + atol: the error it tolerates for values near one.
_DEFAULT_TOLERANCES = {"float16": 1e-3, "bfloat16": 1.6e-2, "float64": 2e-7, "complex128": 2e-7}
_TOLERANCE_OF_OTHER_DTYPES = 1.1e-5
_EAGER_ERROR_FACTOR = 4  # a correct result may be off by this multiple of eager's own error


class Subject(Enum):
    """The values that a script compares."""

    OUTPUTS = "outputs"
    INPUTS = "inputs"
    GRADIENTS = "gradients"


def subject_of(case: Case) -> Subject:
    """Return whether the difference is in outputs, inputs after the call, or gradients."""
    difference = case.failure.main_difference
    where = difference.where if difference is not None else ""
    aspect = case.failure.fingerprint.message
    if aspect == Aspect.MUTATION.value or where.startswith("input"):
        return Subject.INPUTS
    if where.startswith("gradient") or (aspect == Aspect.GRADIENT.value and not where.startswith("output")):
        return Subject.GRADIENTS
    return Subject.OUTPUTS


def _correct_error(difference: Difference) -> float:
    """Return the largest error that a correct result may have."""
    errors = (difference.eager_error, difference.noise)
    return max((v for v in errors if v is not None and math.isfinite(v)), default=0.0) * _EAGER_ERROR_FACTOR


def _default_tolerance(case: Case) -> float:
    values = [case.graph.node(name).value for name in refs_in(case.graph.output.args)]
    dtypes = [value.dtype for value in values if isinstance(value, TensorMeta)]
    tolerances = [_DEFAULT_TOLERANCES.get(dtype, _TOLERANCE_OF_OTHER_DTYPES) for dtype in dtypes]
    return max(tolerances, default=_TOLERANCE_OF_OTHER_DTYPES)


def wants_tolerance(case: Case) -> bool:
    """Whether the default tolerances cannot tell: the error is below them, or eager's own error is above."""
    difference = case.failure.main_difference
    if difference is None or difference.error is None or not math.isfinite(difference.error):
        return False
    return difference.error <= _default_tolerance(case) or _correct_error(difference) >= _default_tolerance(case)


def tolerance(difference: Difference) -> str | None:
    """Return an absolute tolerance between the error of a correct result and the observed error.

    The tolerance is a power of ten if possible, else a number of few digits. None if the error is unknown, or if a
    correct result may be as far off.
    """
    error = difference.error
    if error is None or not math.isfinite(error) or error <= 0:
        return None
    floor = _correct_error(difference)
    if floor >= error:
        floor /= _EAGER_ERROR_FACTOR
    if floor >= error:
        return None
    middle = math.sqrt(floor * error) if floor else error / 3
    power = round(math.log10(middle)) if floor else math.floor(math.log10(middle))
    if floor < 10.0**power < error:
        return f"1e{power}"
    text = f"{middle:.0e}"
    return text.replace("e-0", "e-").replace("e+0", "e") if floor < float(text) < error else f"{middle:.2e}"


def assert_close_arguments(case: Case, explicit: bool, equal_nan: bool) -> tuple[str, ...]:
    """Return keyword arguments for assert_close: the user's tolerances, else our own if `explicit`."""
    arguments = []
    measure = case.measure
    difference = case.failure.main_difference
    if measure.rtol is not None and measure.atol is not None:
        arguments += [f"rtol={measure.rtol!r}", f"atol={measure.atol!r}"]
        equal_nan = True  # the minifier's comparison with the user's tolerances treats NaNs as equal too
    elif explicit and difference is not None and (text := tolerance(difference)) is not None:
        arguments += ["rtol=0", f"atol={text}"]
    if equal_nan:
        arguments.append("equal_nan=True")
    if case.failure.fingerprint.message == Aspect.STRIDE.value:
        arguments.append("check_stride=True")
    arguments += [
        f"check_{aspect.value}=False" for aspect in (Aspect.DEVICE, Aspect.DTYPE) if aspect in measure.ignored
    ]
    return tuple(arguments)
