"""Checks of values, to build a schema of: ranges, choices, items; and a defect, with its place in what was read."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

from minifier.data.case.texts import shown


class Defect(ValueError):
    """Data that do not fit the schema. `place` is the path to them, as `.inputs[3].name`."""

    def __init__(self, sentence: str, place: str = "") -> None:
        super().__init__(sentence)
        self.sentence, self.place = sentence, place

    def __str__(self) -> str:
        place = self.place.removeprefix(".")
        return f"{place}: {self.sentence}" if place else self.sentence


def within(step: str, error: Exception) -> Defect:
    """Return the defect as seen from one level further out: `step` is `.field` or `[position]`."""
    if isinstance(error, Defect):
        return Defect(error.sentence, step + error.place)
    return Defect(str(error), step)


def at(key: object, read: Callable[[Any], Any], value: Any) -> Any:
    """Return what `read` makes of the item at this key or position; its defect has the place."""
    try:
        return read(value)
    except ValueError as error:
        raise within(f"[{shown(key)}]", error) from None


Check = Callable[[Any], None]

MAX_NUMBER = 2**1000  # of an argument or a bound; every such integer has a float


def between(low: float, high: float) -> Check:
    """Return the check for a number from `low` to `high`; None passes, NaN does not."""

    def check(value: float | None) -> None:
        if value is not None and not low <= value <= high:
            raise ValueError(f"expected a number from {_number(low)} to {_number(high)}, found {shown(value)}")

    return check


def _number(value: float) -> str:
    return str(value) if abs(value) < 10**6 else f"2**{math.log2(value + 1):.0f}" if value > 0 else f"{value:.0e}"


def one_of(values: Iterable[str]) -> Check:
    """Return the check for one of these texts."""
    known = frozenset(values)

    def check(value: str) -> None:
        if value not in known:
            raise ValueError(f"expected one of {', '.join(sorted(known))}; found {shown(value)}")

    return check


def each(check: Check) -> Check:
    """Return the check of every item."""

    def check_items(values: Any) -> None:
        if not isinstance(values, (tuple, list)):
            raise ValueError(f"expected a list, found {type(values).__name__}")
        for position, item in enumerate(values):
            at(position, check, item)

    return check_items


def fields(*checks: Check) -> Check:
    """Return the check of a tuple, one check for each of its items."""

    def check_items(values: tuple[Any, ...]) -> None:
        if not isinstance(values, tuple) or len(values) != len(checks):
            raise ValueError(f"expected {len(checks)} items, found {shown(values)}")
        for position, (check, item) in enumerate(zip(checks, values, strict=True)):
            at(position, check, item)

    return check_items


def mapping(of_keys: Check, of_values: Check) -> Check:
    """Return the check of a dictionary."""

    def check_pairs(values: Any) -> None:
        if values is not None and not isinstance(values, dict):
            raise ValueError(f"expected a dictionary, found {shown(values)}")
        for key, item in (values or {}).items():
            at(key, of_keys, key)
            at(key, of_values, item)

    return check_pairs


def string(check: Check) -> Check:
    """Return the check of a value that any JSON may stand for, and that has to be text."""

    def check_text(value: Any) -> None:
        if not isinstance(value, str):
            raise ValueError(f"expected str, found {type(value).__name__}")
        check(value)

    return check_text


def anything(_: Any) -> None:
    """Pass: the type is all that is asked."""


def number(value: Any) -> None:
    """Raise ValueError for an integer that no float can hold."""
    if type(value) is int and not -MAX_NUMBER <= value <= MAX_NUMBER:
        raise ValueError("the integer has more than 1,000 bits")


def plain(value: Any) -> None:
    """Raise ValueError unless the value is a number, text, True, False or None."""
    if value is not None and not isinstance(value, (bool, int, float, str)):
        raise ValueError(f"expected a number, text, true, false or null, found {type(value).__name__}")
    number(value)
