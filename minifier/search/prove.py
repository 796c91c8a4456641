"""The proof that no atom can be deleted alone. A deletion leads to halving and another proof."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from minifier.search.delete import halve
from minifier.search.masks import Mask
from minifier.search.result import SearchPhase
from minifier.search.steps import Ask, Done, Step

Surprised: TypeAlias = Callable[[Mask, tuple[int, ...]], Step]
"""The step after a deletion: called with the smaller set, and its atoms in the order to try."""


def prove(kept: Mask, order: tuple[int, ...]) -> Step:
    """Try to delete each atom alone; no answer is inferred.

    `order` has the atoms of `kept`. The first success shows that the fault is not monotone, so that inferred answers
    may be wrong. The rest is then reduced by halving, which infers nothing, and proved again.
    """

    def surprised(smaller: Mask, rest: tuple[int, ...]) -> Step:
        return halve(smaller, rest, lambda halved: _prove_again(halved, _still(rest, halved)))

    return _singles(kept, order, 0, surprised)


def _prove_again(kept: Mask, order: tuple[int, ...]) -> Step:
    """Prove after a surprise; each further success restarts the round with the remaining atoms."""
    return _singles(kept, order, 0, _prove_again)


def _singles(kept: Mask, order: tuple[int, ...], judged: int, surprised: Surprised) -> Step:
    """Try the atoms of `order` after the first `judged`, which cannot be deleted from `kept`."""
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
