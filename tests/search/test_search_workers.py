"""More workers: the same result in fewer rounds."""

from __future__ import annotations

from math import ceil, log2
from random import Random

import pytest
from search_faults import EMPTY, FakeProber, Fault, hidden, needs
from search_graphs import chain_of, scattered, transformer

from minifier.search import Result, SearchPhase, SearchProgress, reduce

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


def test_deletion_and_proof_gain_from_workers_too() -> None:
    planted = scattered(PROBLEM, 8, Random(0))
    alone, four = search(needs(*planted), 1), search(needs(*planted), 4)
    assert alone.kept == four.kept == planted
    assert four.rounds <= 0.5 * alone.rounds
    assert four.probes <= 4 * four.rounds


@pytest.mark.parametrize("seed", range(5))
def test_a_large_search_that_is_not_monotone_is_the_same_for_any_number_of_workers(seed: int) -> None:
    problem = transformer(300)
    fault = hidden(needs(*scattered(problem, 4, Random(seed))), seed)

    def whole_or_fault(candidate: frozenset[int]) -> bool:
        return len(candidate) == problem.size or fault(candidate)

    kept = {reduce(problem, FakeProber(whole_or_fault, workers)).kept for workers in (1, 2, 3, 4, 16)}
    assert len(kept) == 1
