"""How closely a repro compares: the arguments of torch.testing.assert_close."""

from __future__ import annotations

import math
from enum import Enum

from minifier.case import Case, TensorMeta
from minifier.case.graph import refs_in
from minifier.failure import Aspect, Difference

# What assert_close allows by default, of values near one: rtol + atol.
_ALLOWED = {"float16": 1e-3, "bfloat16": 1.6e-2, "float64": 2e-7, "complex128": 2e-7}
_ALLOWED_ELSE = 1.1e-5
# A right result may be this much farther off than eager's own error.
_ROOM = 4


class Subject(Enum):
    """What a script compares."""

    OUTPUTS = "outputs"
    INPUTS = "inputs"
    GRADIENTS = "gradients"


def _first(case: Case) -> Difference | None:
    """The difference that the failure is about."""
    message = case.failure.fingerprint.message
    every = case.failure.differences
    return next((d for d in every if d.aspect.value == message), every[0] if every else None)


def subject_of(case: Case) -> Subject:
    """Outputs, inputs after the call, or gradients: whichever the first difference is about."""
    difference = _first(case)
    where = difference.where if difference is not None else ""
    aspect = case.failure.fingerprint.message
    if aspect == Aspect.MUTATION.value or where.startswith("input"):
        return Subject.INPUTS
    if where.startswith("gradient") or (aspect == Aspect.GRADIENT.value and not where.startswith("output")):
        return Subject.GRADIENTS
    return Subject.OUTPUTS


def eager_is_not_finite(case: Case) -> bool:
    """Whether eager's own result has NaN, as far as the difference tells."""
    difference = _first(case)
    return difference is not None and any(
        value is not None and math.isnan(value) for value in (difference.eager_error, difference.noise)
    )


def _floor(difference: Difference) -> float:
    """How far off a right result may be."""
    known = (difference.eager_error, difference.noise)
    return max((v for v in known if v is not None and math.isfinite(v)), default=0.0) * _ROOM


def _allowed(case: Case) -> float:
    metas = [case.graph.node(name).value for name in refs_in(case.graph.output.args)]
    return max(
        (_ALLOWED.get(meta.dtype, _ALLOWED_ELSE) for meta in metas if isinstance(meta, TensorMeta)),
        default=_ALLOWED_ELSE,
    )


def wants_tolerance(case: Case) -> bool:
    """Whether the default tolerances would hardly tell: the error is below them, or eager's own is above."""
    difference = _first(case)
    if difference is None or difference.error is None or not math.isfinite(difference.error):
        return False
    return difference.error <= _allowed(case) or _floor(difference) >= _allowed(case)


def tolerance(difference: Difference) -> str | None:
    """An absolute tolerance between what a right result may have and the error: a power of ten, or where there
    is none between them, a number of one digit. None where nothing is between them."""
    error = difference.error
    if error is None or not math.isfinite(error) or error <= 0:
        return None
    floor = _floor(difference)
    if floor >= error:  # without room
        floor /= _ROOM
    if floor >= error:
        return None
    middle = math.sqrt(floor * error) if floor else error / 3
    power = round(math.log10(middle)) if floor else math.floor(math.log10(middle))
    if floor < 10.0**power < error:
        return f"1e{power}"
    text = f"{middle:.0e}"
    return text.replace("e-0", "e-").replace("e+0", "e") if floor < float(text) < error else f"{middle:.2e}"


def closeness(case: Case, explicit: bool, equal_nan: bool) -> tuple[str, ...]:
    """Keyword arguments for assert_close: the user's own measure, else an explicit tolerance if asked for."""
    found = []
    measure = case.measure
    difference = _first(case)
    if measure.rtol is not None and measure.atol is not None:
        found += [f"rtol={measure.rtol!r}", f"atol={measure.atol!r}"]
        equal_nan = True  # as the comparison that used these has it
    elif explicit and difference is not None and (text := tolerance(difference)) is not None:
        found += ["rtol=0", f"atol={text}"]
    if equal_nan:
        found.append("equal_nan=True")
    if case.failure.fingerprint.message == Aspect.STRIDE.value:
        found.append("check_stride=True")
    found += [f"check_{aspect.value}=False" for aspect in (Aspect.DEVICE, Aspect.DTYPE) if aspect in measure.ignored]
    return tuple(found)
