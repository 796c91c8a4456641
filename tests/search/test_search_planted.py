"""Planted faults in transformer-shaped graphs: the exact ops, within the promised number of probes.

Every bound holds for each fault, not on average, with the guess and the proof included.
"""

from __future__ import annotations

from math import comb, log2
from random import Random

import pytest
from search_faults import EMPTY, FakeProber, needs
from search_graphs import chain_of, scattered, transformer

from minifier.search import Ending, reduce


def seeds_for(n: int) -> range:
    return range(4 if n > 2_000 else 20)


@pytest.mark.parametrize("length", [1, 2, 3])
@pytest.mark.parametrize("n", [26, 104, 1_001, 5_000])
def test_a_chain_is_found_in_log_n_and_twelve(n: int, length: int) -> None:
    problem = transformer(n)
    for seed in seeds_for(n):
        planted = chain_of(problem, length, Random(seed))
        result = reduce(problem, FakeProber(needs(*planted)), known={EMPTY: False})
        assert result.kept == planted
        assert result.ended is Ending.PROVED
        assert result.probes <= log2(n) + 12, (seed, result)


@pytest.mark.parametrize(
    ("n", "count"),
    [
        *((26, m) for m in (1, 2, 5, 10)),
        *((104, m) for m in (3, 20)),
        *((1_001, m) for m in (2, 5)),
        *((5_000, m) for m in (2, 20)),
    ],
)
def test_scattered_ops_are_found_near_the_information_bound(n: int, count: int) -> None:
    problem = transformer(n)
    bound = 1.3 * log2(comb(n, count)) + 2 * count + 8
    for seed in seeds_for(n):
        planted = scattered(problem, count, Random(seed))
        result = reduce(problem, FakeProber(needs(*planted)), known={EMPTY: False})
        assert result.kept == planted
        assert result.one_minimal
        assert result.probes <= bound, (seed, result)


def test_one_op_among_thousands_takes_a_binary_search_and_two_probes() -> None:
    problem = transformer(4_992)
    result = reduce(problem, FakeProber(needs(3_210)), known={EMPTY: False})
    assert result.kept == {3_210}
    assert result.probes <= log2(4_992) + 3


def test_when_everything_is_needed_everything_is_kept() -> None:
    problem = transformer(40)
    result = reduce(problem, FakeProber(needs(*range(40))))
    assert result.kept == problem.everything
    assert result.one_minimal
    assert result.probes <= 3 * 40
