"""Values of inputs: what a person would write, from the plainest on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from minifier.case import Case, Drawn, TensorInput

_SMALL = 16  # elements that a person would still write out


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of an input's real values: bounds (None where not finite or empty), and, of a small
    tensor, the values themselves in row-major order."""

    low: float | int | None
    high: float | int | None
    values: tuple[float | int | bool, ...] | None


Ladder = Callable[[TensorInput, Facts | None], Drawn | None]


def _is_float(dtype: str) -> bool:
    return dtype.startswith(("float", "bfloat", "complex"))


def random(item: TensorInput, facts: Facts | None) -> Drawn | None:
    """Normal values for floating types; integers between the bounds seen, or zeros if nothing is known."""
    if _is_float(item.meta.dtype):
        return Drawn("randn")
    if item.meta.dtype == "bool":
        return Drawn("bools")
    if facts is None or facts.low is None or facts.high is None:
        return Drawn("zeros")
    return Drawn("randint", int(facts.low), int(facts.high) + 1)


def bounded(item: TensorInput, facts: Facts | None) -> Drawn | None:
    """Uniform values between the bounds seen."""
    if _is_float(item.meta.dtype) and facts and facts.low is not None and facts.high is not None:
        if facts.low == facts.high:
            return Drawn({0.0: "zeros", 1.0: "ones"}.get(facts.low, "full"), facts.low)
        low, high = (float(f"{bound:.3g}") for bound in (facts.low, facts.high))  # as a person would round them
        return Drawn("rand", low, high) if low < high else random(item, facts)
    return random(item, facts)


def written(item: TensorInput, facts: Facts | None) -> Drawn | None:
    """The values themselves, if they are few."""
    if facts is not None and facts.values is not None and item.meta.is_contiguous:
        return Drawn("list", values=facts.values)
    return None


LADDER: tuple[Ladder, ...] = (random, bounded, written)


def with_data(case: Case, rung: Ladder, facts: dict[str, Facts], only: str | None = None) -> Case:
    """The Case with each input (or the one named) made by this rung where it has an answer."""

    def change(item: TensorInput) -> TensorInput:
        drawn = rung(item, facts.get(item.name))
        return item if drawn is None else replace(item, source=drawn)

    inputs = tuple(
        change(item) if isinstance(item, TensorInput) and only in (None, item.name) else item for item in case.inputs
    )
    return replace(case, inputs=inputs)


def is_small(elements: int) -> bool:
    """Whether values are few enough to be written out."""
    return elements <= _SMALL
