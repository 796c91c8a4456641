"""Draws other random values for the inputs of a Case: whether a variant passes is known only after several draws."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from random import Random

from minifier.case import Case, Drawn, TensorInput
from minifier.case.script_floats import floats_in_tensors
from minifier.passes.data import is_integer
from minifier.passes.resized import with_tensors

DRAWS = 8  # of a variant, before it is said to pass
_MAX_ELEMENTS = 4096  # of an input that is drawn, as its values stand in the Case


def can_be_drawn(case: Case, among: Collection[str] | None = None) -> bool:
    """Return whether all values, or those of the inputs `among`, are constants or can be drawn again."""
    floats = floats_in_tensors(case)
    items = [item for item in case.inputs if isinstance(item, TensorInput) and item.name not in floats]
    return all(_can_be_drawn(item) for item in items if among is None or item.name in among)


def _can_be_drawn(item: TensorInput) -> bool:
    if not isinstance(item.source, Drawn) or item.source.storage is not None:  # a draw would end the sharing
        return False
    if not item.source.is_random:
        return item.source.how != "list"
    return _elements(item) <= _MAX_ELEMENTS and not item.meta.dtype.startswith("complex")


def _elements(item: TensorInput) -> int:
    return item.storage or (item.meta.elements if item.meta.is_contiguous else item.meta.span)


def redrawn(case: Case, number: int, among: Collection[str] | None = None) -> Case:
    """Return the Case with the draw of this number; 0 is the draw that the repro makes itself."""
    if number == 0:
        return case
    places = {item.name: place for place, item in enumerate(case.inputs)}

    def draw(item: TensorInput) -> TensorInput:
        source = item.source
        if not isinstance(source, Drawn) or not source.is_random or item.name not in (among or places):
            return item
        random = Random(number * len(places) + places[item.name])
        values = tuple(_value(random, source) for _ in range(_elements(item)))
        return replace(item, source=Drawn("list", values=values))

    return with_tensors(case, draw)


def _value(random: Random, drawn: Drawn) -> float | int | bool:
    if drawn.how == "bools":
        return random.random() > 0.5
    if drawn.how == "randint":
        return random.randrange(int(drawn.low or 0), int(drawn.high or 1))
    return random.gauss(0.0, 1.0) if drawn.how == "randn" else (drawn.low or 0.0) + drawn.spread * random.random()


def kinds_of(item: TensorInput) -> tuple[Drawn, ...]:
    """Return the other kinds of values for an input that is not drawn from a normal distribution."""
    source, dtype = item.source, item.meta.dtype
    values = source.values if isinstance(source, Drawn) and source.how == "list" else ()
    numbers = [float(value) for value in values if value == value]  # noqa: PLR0124 - not NaN
    low, high = (int(min(numbers)), int(max(numbers))) if numbers else (0, 1)
    if dtype == "bool":
        return (Drawn("bools"),)
    if is_integer(dtype):
        return (Drawn("randint", low, high + 1),) if low < high else ()
    if isinstance(source, Drawn) and source.how == "rand":
        return (Drawn("randn"),)
    bounded = Drawn("rand", float(low), float(high)) if low < high else Drawn("rand")
    return (Drawn("randn"), bounded, Drawn("randint", 1, 5))
