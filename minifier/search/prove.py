"""The proof that no atom can go, and what to do when one can after all."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from .delete import halve
from .masks import Mask
from .result import SearchPhase
from .steps import Ask, Done, Step

Surprised: TypeAlias = Callable[[Mask, tuple[int, ...]], Step]
"""What follows when an atom could go: the smaller set, and its atoms in the order to try."""


def prove(kept: Mask, order: tuple[int, ...]) -> Step:
    """Deletes each atom alone; every answer is a real one.

    `order` is the atoms of `kept`, in the order to try. The first surprise shows that the fault is not
    monotone and that what was inferred may be wrong: the rest is then reduced by halving, which infers
    nothing, and proved again.
    """

    def surprised(smaller: Mask, rest: tuple[int, ...]) -> Step:
        return halve(smaller, rest, lambda left: _again(left, _still(rest, left)))

    return _singles(kept, order, 0, surprised)


def _again(kept: Mask, order: tuple[int, ...]) -> Step:
    """The proof after a surprise: at each further one it goes on, round and round, with what is left."""
    return _singles(kept, order, 0, _again)


def _singles(kept: Mask, order: tuple[int, ...], judged: int, surprised: Surprised) -> Step:
    """The first `judged` atoms of `order` cannot be deleted from `kept`; is that so for the others?"""
    if judged == len(order):
        return Done(kept)
    without = kept & ~(1 << order[judged])

    def answered(fails: bool) -> Step:
        if fails:
            return surprised(without, order[judged + 1 :] + order[:judged])
        return _singles(kept, order, judged + 1, surprised)

    return Ask(SearchPhase.PROVE, without, 0.05, answered)


def _still(order: tuple[int, ...], kept: Mask) -> tuple[int, ...]:
    return tuple(atom for atom in order if kept >> atom & 1)
