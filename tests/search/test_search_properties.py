"""What holds for every fault, monotone or not, and any number of workers."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from search_faults import (
    EMPTY,
    FakeProber,
    Fault,
    adjacent,
    at_least,
    hidden,
    is_one_minimal,
    needs,
    needs_but_not,
    truth_table,
    whole_fails,
)

from minifier.search import Budget, Ending, Problem, reduce

WORKERS = (1, 2, 4)


@st.composite
def problems(draw: st.DrawFn, most: int = 24) -> Problem:
    """Any graph, with few kinds, and with hints that have nothing to do with the fault."""
    n = draw(st.integers(1, most))
    parents = [()]
    for atom in range(1, n):
        reads = draw(st.lists(st.integers(max(0, atom - 5), atom - 1), max_size=3, unique=True))
        parents.append(tuple(reads))
    kinds = draw(st.lists(st.sampled_from("abcde"), min_size=n, max_size=n))
    hints = draw(st.lists(st.lists(st.integers(0, n - 1), max_size=4, unique=True), max_size=3))
    return Problem(tuple(parents), tuple(kinds), tuple(map(tuple, hints)))


@st.composite
def faults(draw: st.DrawFn, problem: Problem) -> Fault:
    """Monotone and other faults, a third of them hidden in part of the candidates that hold them."""
    some = draw(st.lists(st.integers(0, problem.size - 1), min_size=1, max_size=5, unique=True))
    fault = draw(
        st.sampled_from(
            [
                needs(*some),
                needs_but_not(some[1:], some[0]),
                at_least(min(2, len(some)), some),
                adjacent(problem, problem.kinds[some[0]], problem.kinds[some[-1]]),
                truth_table(some, draw(st.integers(0, 2**2 ** len(some) - 1))),
            ]
        )
    )
    if draw(st.integers(0, 2)) == 0:
        fault = hidden(fault, draw(st.integers(0, 9)))
    return whole_fails(problem, fault)


@st.composite
def searches(draw: st.DrawFn) -> tuple[Problem, Fault]:
    problem = draw(problems())
    return problem, draw(faults(problem))


@given(searches())
@settings(max_examples=200)
def test_the_result_fails_is_one_minimal_and_does_not_depend_on_the_workers(search: tuple[Problem, Fault]) -> None:
    problem, fault = search
    results = [reduce(problem, FakeProber(fault, workers)) for workers in WORKERS]
    for result in results:
        assert result.ended is Ending.PROVED
        assert is_one_minimal(result.kept, fault)
    assert len({result.kept for result in results}) == 1
    sizes = [[(count.phase, count.before, count.after) for count in result.phases] for result in results]
    assert sizes[0] == sizes[1] == sizes[2]
    assert results[0].rounds == results[0].probes
    assert all(result.rounds <= results[0].rounds for result in results)


@given(searches(), st.integers(0, 30), st.sampled_from(WORKERS))
@settings(max_examples=100)
def test_a_budget_ends_with_the_best_so_far(search: tuple[Problem, Fault], most: int, workers: int) -> None:
    problem, fault = search
    prober = FakeProber(fault, workers)
    result = reduce(problem, prober, budget=Budget(max_probes=most))
    assert result.probes == len(prober.answers) <= most
    assert fault(result.kept)
    failing = [candidate for candidate, fails in prober.answers.items() if fails]
    if result.one_minimal:
        assert is_one_minimal(result.kept, fault)
    else:
        assert result.ended is Ending.MAX_PROBES
        assert len(result.kept) == min(map(len, [problem.everything, *failing]))


@given(searches(), st.integers(0, 20), st.sampled_from(WORKERS), st.sampled_from(WORKERS))
@settings(max_examples=100)
def test_a_search_resumed_from_its_answers_ends_as_if_never_stopped(
    search: tuple[Problem, Fault], stop: int, before: int, after: int
) -> None:
    problem, fault = search
    first = FakeProber(fault, before)
    reduce(problem, first, budget=Budget(max_probes=stop))
    second = FakeProber(fault, after, known=first.answers)
    resumed = reduce(problem, second, known=first.answers)
    uninterrupted = reduce(problem, FakeProber(fault))
    assert (resumed.kept, resumed.ended) == (uninterrupted.kept, uninterrupted.ended)
    if before == after == 1:
        assert len(first.answers) + len(second.answers) == uninterrupted.probes


@given(problems(), st.integers(0, 3))
@settings(max_examples=60)
def test_a_fault_that_needs_nothing_ends_with_nothing(problem: Problem, seed: int) -> None:
    fault = whole_fails(problem, lambda candidate: not candidate or hash((seed, candidate)) % 2 == 0)
    result = reduce(problem, FakeProber(fault))
    assert is_one_minimal(result.kept, fault)
    always = reduce(problem, FakeProber(lambda candidate: True))
    assert always.kept == EMPTY
