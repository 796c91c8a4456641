"""Galloping group deletion: deletes unneeded atoms in large groups, finds needed atoms by halving."""

from __future__ import annotations

from collections.abc import Iterable

from minifier.search.masks import Mask, mask_of, size
from minifier.search.result import SearchPhase
from minifier.search.steps import Ask, Reduced, Step

MAX_SINGLE_ATOMS = 5
"""Up to this number, atoms are deleted one by one: a group would not save probes."""


def delete(kept: Mask, order: tuple[int, ...], then: Reduced) -> Step:
    """Try to delete the atoms of `order`, neighbours together; about 1.2 log2 C(n, m) + m probes for m needed of n.

    The first group is half of the atoms. The group size doubles if the failure stays, else it is halved. (Hwang 1972,
    generalised binary splitting, for an unknown number of defectives.) A few atoms are deleted singly, the far end
    first: needed atoms are mostly near the start of the walk, and the last answers also serve the proof.
    """
    if len(order) <= MAX_SINGLE_ATOMS:
        return _singly(kept, tuple(reversed(order)), then)
    return _gallop(kept, order, len(order) // 2, then)


def gallop_over(kept: Mask, order: Iterable[int], first: int, then: Reduced) -> Step:
    """Delete the atoms of `order` as `delete` does, beginning with a group of `first` atoms; 0 for all of them."""
    atoms = tuple(order)
    return _gallop(kept, atoms, first or max(1, len(atoms)), then)


def _singly(kept: Mask, order: tuple[int, ...], then: Reduced) -> Step:
    if not order:
        return then(kept)
    without = kept & ~(1 << order[0])

    def answered(fails: bool) -> Step:
        return _singly(without if fails else kept, order[1:], then)

    return Ask(SearchPhase.DELETE, without, 0.4, answered, inferable=True)


def _gallop(kept: Mask, order: tuple[int, ...], group: int, then: Reduced) -> Step:
    if not order:
        return then(kept)
    run = order[:group]
    without = kept & ~mask_of(run)

    def answered(fails: bool) -> Step:
        if fails:
            return _gallop(without, order[group:], 2 * group, then)
        return _split(kept, order, len(run), max(1, group // 2), then)

    return Ask(SearchPhase.DELETE, without, 0.5, answered, inferable=True)


def _split(kept: Mask, order: tuple[int, ...], stuck: int, group: int, then: Reduced) -> Step:
    """Delete the longest deletable prefix of the first `stuck` atoms, which cannot all be deleted.

    The atom after that prefix is needed; galloping continues with the next atom.
    """
    if stuck == 1:
        return _gallop(kept, order[1:], group, then)
    half = stuck // 2
    without = kept & ~mask_of(order[:half])

    def answered(fails: bool) -> Step:
        if fails:
            return _split(without, order[half:], stuck - half, group, then)
        return _split(kept, order, half, group, then)

    return Ask(SearchPhase.DELETE, without, 0.5, answered, inferable=True)


def halve(kept: Mask, order: tuple[int, ...], then: Reduced) -> Step:
    """Try to delete chunks of half, a quarter, an eighth ... of the atoms, down to pairs.

    No answer is inferred and no order needed, which suits a fault that is not monotone. (lithium's `minimize`.) The
    proof deletes single atoms.
    """
    return _chunks(kept, order, 0, len(order) // 2, then)


def _chunks(kept: Mask, order: tuple[int, ...], start: int, chunk: int, then: Reduced) -> Step:
    if start >= len(order):
        start, chunk = 0, min(chunk, len(order)) // 2
    if chunk < 2:
        return then(kept)
    run = order[start : start + chunk]
    without = kept & ~mask_of(run)

    def answered(fails: bool) -> Step:
        if fails:
            return _chunks(without, order[:start] + order[start + chunk :], start, chunk, then)
        return _chunks(kept, order, start + chunk, chunk, then)

    return Ask(SearchPhase.PROVE, without, 0.3 if size(kept) > 2 * chunk else 0.5, answered)
