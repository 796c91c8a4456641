"""Values of inputs: what a person would write, from the plainest on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from minifier.case import Case, Drawn, TensorInput
from minifier.passes.edits import Edit, Row, row
from minifier.passes.resized import with_tensors

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


def _is_integer(dtype: str) -> bool:
    return dtype != "bool" and not _is_float(dtype)


def plain(item: TensorInput, facts: Facts | None) -> Drawn | None:
    """Normal values for floating types, zeros for integers, which are valid indices of all that is not empty, and
    truth for masks and conditions."""
    if item.meta.dtype == "bool":
        return Drawn("ones") if item.meta.shape else Drawn("list", values=(True,))
    return Drawn("zeros") if _is_integer(item.meta.dtype) else random(item, facts)


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


_LADDER: tuple[Ladder, ...] = (plain, random, bounded, written)


def data_rows(case: Case, facts: dict[str, Facts]) -> list[Row]:
    """The values of each input where they are the script's own, or nobody's."""
    tensors = [item for item in case.inputs if isinstance(item, TensorInput)]
    rows = []
    for item in tensors:
        if not isinstance(item.source, Drawn):
            rows.append(row(f"values of {item.name}", *_made(item, facts.get(item.name))))
        elif item.source.how == "zeros" and not _is_integer(item.meta.dtype):  # a value at a cut
            rows.append(row(f"values of {item.name}", *_made(item, None)[:1]))
    return rows


def _made(item: TensorInput, facts: Facts | None) -> list[Edit]:
    drawn = [rung(item, facts) for rung in _LADDER]
    return [_given(item.name, each) for each in dict.fromkeys(drawn) if each is not None]


def _given(name: str, drawn: Drawn) -> Edit:
    def change(item: TensorInput) -> TensorInput:
        return replace(item, source=drawn) if item.name == name else item

    return lambda case: with_tensors(case, change)


def is_small(elements: int) -> bool:
    """Whether values are few enough to be written out."""
    return elements <= _SMALL
