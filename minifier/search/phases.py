"""The phases of a search, each a tree of questions, and how they are chained."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeAlias, TypeVar

from .atoms import Dataflow, Mask, mask_of, members, size, within
from .problem import Problem, SearchPhase
from .walk import Ask, Done, Reduced, Step

MAX_HINT_GUESSES = 6

SMALL_SET_ATOMS = 2
"""A failing set of this size needs no better guess."""


def guess(problem: Problem, flow: Dataflow, kept: Mask, then: Reduced) -> Step:
    """Try likely candidates, from the boldest to the safest; keep each failing candidate.

    Costs at most 7 probes, and 1 without hints. notes/search.md has measurements of these guesses and of others.
    """
    hinted = islice(_distinct(_from_hints(problem, flow)), MAX_HINT_GUESSES)
    repetition = mask_of(first_of_each_kind(problem, range(problem.size)))
    return _try((*hinted, repetition), kept, then)


def _try(guesses: tuple[Mask, ...], kept: Mask, then: Reduced) -> Step:
    if not guesses or size(kept) <= SMALL_SET_ATOMS:
        return then(kept)
    candidate, rest = guesses[0], guesses[1:]
    if candidate == kept or not within(candidate, kept):
        return _try(rest, kept, then)

    def answered(fails: bool) -> Step:
        return _try(rest, candidate if fails else kept, then)

    return Ask(SearchPhase.GUESS, candidate, 0.5, answered, inferable=True)


def _from_hints(problem: Problem, flow: Dataflow) -> Iterator[Mask]:
    """Yield the atoms of the hints, then their surroundings; the best hint first."""
    hints = [sorted(hint) for hint in problem.hints if hint]
    yield from (mask_of(first_of_each_kind(problem, hint)) for hint in hints)
    yield from (mask_of(hint) for hint in hints)
    yield from (flow.neighbours(hint) for hint in hints)
    yield from (flow.ball(hint, 2) for hint in hints)


def _distinct(guesses: Iterable[Mask]) -> Iterator[Mask]:
    return iter(dict.fromkeys(guesses))


def first_of_each_kind(problem: Problem, atoms: Iterable[int]) -> list[int]:
    """Return the first atom of each kind.

    Real networks repeat a dozen kinds hundreds of times; a backend that fails on a kind mostly fails on its first atom.
    """
    firsts: dict[str, int] = {}
    for atom in atoms:
        firsts.setdefault(problem.kinds[atom], atom)
    return list(firsts.values())


RADII = (0, 2, 6)
"""How far around the needed atom to look: itself, a fused pattern, a block such as attention."""

Located: TypeAlias = Callable[[Mask, int], Step]
"""The next phase, called with a failing set and a needed atom of it."""


def prefix(kept: Mask, then: Located) -> Step:
    """Find, by binary search, a failing prefix of `kept` that passes without its last atom.

    That atom is needed. For n atoms this takes log2 n probes, for any fault.
    """
    atoms = members(kept)

    def between(passing: int, failing: int) -> Step:
        shortest = _first(kept, atoms, failing)
        if failing - passing <= 1:
            return then(shortest, atoms[failing - 1])
        middle = (passing + failing) // 2

        def answered(fails: bool) -> Step:
            return between(passing, middle) if fails else between(middle, failing)

        return Ask(SearchPhase.PREFIX, _first(kept, atoms, middle), 0.5, answered)

    return between(0, len(atoms))


def _first(kept: Mask, atoms: list[int], length: int) -> Mask:
    return kept & ((2 << atoms[length - 1]) - 1)


def ball(flow: Dataflow, kept: Mask, needed: int, then: Located, radii: tuple[int, ...] = RADII) -> Step:
    """Try the needed atom with its ancestors at growing radius; keep the first ball that fails.

    Most faults are local: a single op, or a pattern of a few ops that feed each other.
    """
    if not radii:
        return then(kept, needed)
    candidate = flow.ball([needed], radii[0]) & kept
    if candidate == kept:
        return then(kept, needed)

    def answered(fails: bool) -> Step:
        return then(candidate, needed) if fails else ball(flow, kept, needed, then, radii[1:])

    return Ask(SearchPhase.BALL, candidate, 0.5, answered, inferable=True)


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


def plan(problem: Problem) -> Step:
    """Return the first question of a search that begins with all atoms, known to fail."""
    flow = Dataflow(problem)

    def narrowing(kept: Mask) -> Step:
        return prefix(kept, looking_around)

    def looking_around(kept: Mask, needed: int) -> Step:
        return ball(flow, kept, needed, deleting)

    def deleting(kept: Mask, needed: int) -> Step:
        other_atoms = flow.depth_first(needed, kept)[1:]
        return delete(kept, other_atoms, proving)

    if not problem.size:
        return Done(0)
    return guess(problem, flow, mask_of(problem.everything), narrowing)


def proving(kept: Mask) -> Step:
    """Prove the result, from the last atom, which is the most likely to be needed, to the first."""
    return prove(kept, tuple(reversed(members(kept))))


_T = TypeVar("_T")


def fewest(items: Sequence[_T], shows: Callable[[tuple[_T, ...]], bool], most: int) -> tuple[_T, ...]:
    """Return items with which a failure shows, each of them needed; the first `most` that are found, if it takes more.

    `shows` tells it for some of the items, and is true for all. Finding n of m items takes about n log2 m of its calls.
    """
    needed: list[_T] = []
    remaining = tuple(items)
    while remaining and len(needed) < most and not shows(tuple(needed)):
        without, enough = 0, len(remaining)
        while enough - without > 1:  # of the first `enough`, the last is needed
            middle = (without + enough) // 2
            if shows((*needed, *remaining[:middle])):
                enough = middle
            else:
                without = middle
        needed.append(remaining[enough - 1])
        remaining = remaining[: enough - 1]
    return tuple(needed)
