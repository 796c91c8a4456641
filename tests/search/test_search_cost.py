"""The search's own time, with a prober that takes none."""

from __future__ import annotations

import time
from collections.abc import Sequence
from random import Random

import pytest
from search_faults import EMPTY
from search_graphs import scattered, transformer

from minifier.search import Atoms, reduce

MOST_MS_PER_PROBE = 5.0  # 0.3 measured with one worker, 0.4 with four


class FreeProber:
    def __init__(self, planted: Atoms, workers: int) -> None:
        self.planted = planted
        self.workers = workers

    def probe(self, candidates: Sequence[Atoms]) -> list[bool]:
        return [self.planted <= candidate for candidate in candidates]


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize("count", [1, 20])
def test_a_probe_costs_the_search_little_at_5000_atoms(count: int, workers: int) -> None:
    problem = transformer(5_000)
    prober = FreeProber(scattered(problem, count, Random(0)), workers)
    began = time.process_time()
    result = reduce(problem, prober, known={EMPTY: False})
    milliseconds = 1e3 * (time.process_time() - began)
    assert result.kept == prober.planted
    assert milliseconds / result.probes <= MOST_MS_PER_PROBE


def test_hundreds_of_needed_atoms_stay_cheap() -> None:
    problem = transformer(5_000)
    prober = FreeProber(scattered(problem, 300, Random(0)), 1)
    began = time.process_time()
    result = reduce(problem, prober)
    assert result.kept == prober.planted
    assert 1e3 * (time.process_time() - began) / result.probes <= MOST_MS_PER_PROBE
