"""A defect in what was read, with its place: `inputs[3].meta.stride: expected ...`."""

from __future__ import annotations


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
