"""What the error names, and what repetition suggests, is tried before anything is searched."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from search_faults import EMPTY, FakeProber, Fault, adjacent, any_of_each, needs, of_kind
from search_graphs import transformer

from minifier.search import Problem, Result, reduce

N = 1_001
OP = 500
PLAIN = transformer(N)


def hinting(*hints: tuple[int, ...], problem: Problem = PLAIN) -> Problem:
    return replace(problem, hints=hints)


def with_kind(kind: str, atom: int, problem: Problem = PLAIN) -> Problem:
    """The problem with one op of a kind that occurs nowhere else."""
    kinds = (*problem.kinds[:atom], kind, *problem.kinds[atom + 1 :])
    return replace(problem, kinds=kinds)


def search(problem: Problem, fault: Fault) -> Result:
    result = reduce(problem, FakeProber(fault), known={EMPTY: False})
    assert result.one_minimal
    assert fault(result.kept)
    return result


def reader_of(atom: int) -> int:
    return next(other for other in range(PLAIN.size) if atom in PLAIN.parents[other])


def test_the_op_that_the_error_names_takes_one_probe() -> None:
    result = search(hinting((OP,)), needs(OP))
    assert (result.kept, result.probes) == ({OP}, 1)


@pytest.mark.parametrize(
    ("others", "probes"),
    [
        (PLAIN.parents[OP][:1], 6),
        ((reader_of(OP),), 8),
        ((PLAIN.parents[OP][0], reader_of(OP)), 9),
        ((PLAIN.parents[OP][0], PLAIN.parents[PLAIN.parents[OP][0]][0]), 12),
    ],
    ids=["what it reads", "what reads it", "both", "two steps up"],
)
def test_the_named_op_with_its_neighbourhood(others: tuple[int, ...], probes: int) -> None:
    result = search(hinting((OP,)), needs(OP, *others))
    assert result.kept == {OP, *others}
    assert result.probes <= probes


def test_one_certain_op_of_the_kind_that_the_error_names_is_searched_among_its_like() -> None:
    softmaxes = of_kind(PLAIN, "softmax")
    result = search(hinting(softmaxes), needs(softmaxes[50]))
    assert result.kept == {softmaxes[50]}
    assert result.probes <= 11


def test_a_dozen_of_one_kind_and_one_of_another_are_found_at_once() -> None:
    small = transformer(13 * 12 + 2)
    problem = with_kind("tanh", 100, small)
    softmaxes = of_kind(problem, "softmax")
    assert len(softmaxes) == 12
    problem = hinting(tuple(sorted((*softmaxes, 100))), problem=problem)
    prober = FakeProber(any_of_each(problem, "softmax", "tanh"))
    result = reduce(problem, prober, known={EMPTY: False})
    assert prober.rounds[0] == [{softmaxes[0], 100}]
    assert result.kept == {softmaxes[0], 100}
    assert result.probes == 3, "the guess, and the proof"


@pytest.mark.parametrize("kind", ["embedding", "softmax", "lm_head"])
def test_a_kind_that_fails_anywhere_is_found_among_the_first_of_each(kind: str) -> None:
    assert search(PLAIN, any_of_each(PLAIN, kind)).probes <= 6


def test_a_kind_that_occurs_once_among_a_thousand_is_found_among_the_first_of_each() -> None:
    problem = with_kind("tanh", 777)
    result = search(problem, needs(777))
    assert result.kept == {777}
    assert result.probes <= 6


def test_a_pattern_of_kinds() -> None:
    assert search(PLAIN, adjacent(PLAIN, "gelu", "linear")).probes <= 15


def test_wrong_hints_cost_at_most_six_probes() -> None:
    hints = [((OP,),), (of_kind(PLAIN, "softmax"),), tuple((atom,) for atom in range(0, 200, 10))]
    for seed in range(20):
        fault = needs(Random(seed).randrange(300, N))
        without = search(PLAIN, fault).probes
        for wrong in hints:
            assert search(hinting(*wrong), fault).probes <= without + 6
