"""The phases, chained into a search."""

from __future__ import annotations

from minifier.search.dataflow import Dataflow
from minifier.search.delete import delete
from minifier.search.guess import guess
from minifier.search.masks import Mask, mask_of, members
from minifier.search.narrow import ball, prefix
from minifier.search.problem import Problem
from minifier.search.prove import prove
from minifier.search.steps import Done, Step


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
