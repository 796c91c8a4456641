"""Values of inputs as a person would write them, the simplest first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from minifier.case import Case, Drawn, TensorInput
from minifier.passes.edits import Edit, Row, row
from minifier.passes.resized import with_tensors

_MAX_LISTED_ELEMENTS = 16  # as many as a person would still write out


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts about an input's recorded values.

    The bounds are None if not finite or the tensor is empty. A small tensor has its `values`, row-major."""

    low: float | int | None
    high: float | int | None
    values: tuple[float | int | bool, ...] | None


Ladder = Callable[[TensorInput, Facts | None], Drawn | None]


def _is_float(dtype: str) -> bool:
    return dtype.startswith(("float", "bfloat", "complex"))


def _is_integer(dtype: str) -> bool:
    return dtype != "bool" and not _is_float(dtype)


def plain(item: TensorInput, facts: Facts | None) -> Drawn | None:
    """Return normal values for floats, zeros for integers, True for booleans.

    Zero is a valid index into every non-empty dimension."""
    if item.meta.dtype == "bool":
        return Drawn("ones") if item.meta.shape else Drawn("list", values=(True,))
    return Drawn("zeros") if _is_integer(item.meta.dtype) else random(item, facts)


def random(item: TensorInput, facts: Facts | None) -> Drawn | None:
    """Return normal values for floats, integers within the recorded bounds, or zeros without bounds."""
    if _is_float(item.meta.dtype):
        return Drawn("randn")
    if item.meta.dtype == "bool":
        return Drawn("bools")
    if facts is None or facts.low is None or facts.high is None:
        return Drawn("zeros")
    return Drawn("randint", int(facts.low), int(facts.high) + 1)


def bounded(item: TensorInput, facts: Facts | None) -> Drawn | None:
    """Return uniform values within the recorded bounds."""
    if _is_float(item.meta.dtype) and facts and facts.low is not None and facts.high is not None:
        if facts.low == facts.high:
            return Drawn({0.0: "zeros", 1.0: "ones"}.get(facts.low, "full"), facts.low)
        low, high = (float(f"{bound:.3g}") for bound in (facts.low, facts.high))  # as a person would round them
        return Drawn("rand", low, high) if low < high else random(item, facts)
    return random(item, facts)


def written(item: TensorInput, facts: Facts | None) -> Drawn | None:
    """Return the recorded values themselves, if few."""
    if facts is not None and facts.values is not None and item.meta.is_contiguous and not item.storage:
        return Drawn("list", values=facts.values)
    return None


_LADDER: tuple[Ladder, ...] = (plain, random, bounded, written)


def data_rows(case: Case, facts: dict[str, Facts]) -> list[Row]:
    """Return a row for each input with recorded values, and for each value at a cut."""
    tensors = [item for item in case.inputs if isinstance(item, TensorInput)]
    rows = []
    for item in tensors:
        if not isinstance(item.source, Drawn):
            rows.append(row(f"values of {item.name}", *_edits(item, facts.get(item.name))))
        elif item.source.how == "no memory":
            rows.append(row(f"values of {item.name}", *_edits(item, None)[:1], _with_source(item.name, Drawn("zeros"))))
        elif item.source.how == "zeros" and not _is_integer(item.meta.dtype):  # a value at a cut
            rows.append(row(f"values of {item.name}", *_edits(item, None)[:1]))
    return rows


def _edits(item: TensorInput, facts: Facts | None) -> list[Edit]:
    sources = dict.fromkeys(rung(item, facts) for rung in _LADDER)
    return [_with_source(item.name, source) for source in sources if source is not None]


def _with_source(name: str, source: Drawn) -> Edit:
    def change(item: TensorInput) -> TensorInput:
        return replace(item, source=source) if item.name == name else item

    return lambda case: with_tensors(case, change)


def is_small(elements: int) -> bool:
    """Return whether a repro lists the values of so many elements."""
    return elements <= _MAX_LISTED_ELEMENTS
