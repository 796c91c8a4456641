"""More workers: the same result in fewer rounds."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, log2
from random import Random

import pytest
from search_faults import EMPTY, FakeProber, Fault, hidden, needs
from search_graphs import chain_of, scattered, transformer

from minifier.search import Atoms, Result, SearchPhase, SearchProgress, reduce

N = 4_992
PROBLEM = transformer(N)


def search(fault: Fault, workers: int) -> Result:
    return reduce(PROBLEM, FakeProber(fault, workers), known={EMPTY: False})


@pytest.mark.parametrize("workers", [2, 3, 4, 8])
def test_the_prefix_search_is_nearly_a_search_of_workers_plus_one_ways(workers: int) -> None:
    for seed in range(6):
        rounds: list[SearchProgress] = []
        planted = Random(seed).randrange(N)
        reduce(PROBLEM, FakeProber(needs(planted), workers), known={EMPTY: False}, on_progress=rounds.append)
        prefix = [each for each in rounds if each.phase is SearchPhase.PREFIX]
        assert len(prefix) <= ceil(log2(N) / log2(workers + 1)) + 2


@pytest.mark.parametrize(("workers", "most"), [(1, 24), (2, 17), (4, 11), (16, 7)])
def test_rounds_for_a_chain_of_three(workers: int, most: int) -> None:
    for seed in range(8):
        planted = chain_of(PROBLEM, 3, Random(seed))
        result = search(needs(*planted), workers)
        assert result.kept == planted
        assert result.rounds <= most


@pytest.mark.parametrize("seed", range(5))
def test_a_large_search_that_is_not_monotone_is_the_same_for_any_number_of_workers(seed: int) -> None:
    problem = transformer(300)
    fault = hidden(needs(*scattered(problem, 4, Random(seed))), seed)

    def whole_or_fault(candidate: frozenset[int]) -> bool:
        return len(candidate) == problem.size or fault(candidate)

    kept = {reduce(problem, FakeProber(whole_or_fault, workers)).kept for workers in (1, 2, 3, 4, 16)}
    assert len(kept) == 1


class Lenient(FakeProber):
    """Takes a candidate even if it says that it has no worker."""

    def probe(self, candidates: Sequence[Atoms]) -> list[bool]:
        self.rounds.append(list(candidates))
        return [self.fault(candidate) for candidate in candidates]


@pytest.mark.parametrize(("workers", "given"), [(0, 1), (1, 1), (3, 3)])
def test_every_worker_is_given_a_candidate_and_one_is_asked_about_without_any(workers: int, given: int) -> None:
    prober = Lenient(needs(3, 12), workers)
    assert reduce(transformer(40), prober).kept == {3, 12}
    assert len(prober.rounds[0]) == given
