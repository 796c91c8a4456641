"""Every way a search can end, what it leaves behind, and what it reports on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from clock import Clock
from search_faults import EMPTY, FakeProber, InterruptedProber, needs
from search_graphs import scattered, transformer

from minifier.search import Atoms, Budget, Ending, Problem, SearchPhase, SearchProgress, reduce

PROBLEM = transformer(104)
PLANTED = scattered(PROBLEM, 3, Random(1))


@pytest.mark.parametrize("workers", [1, 3])
@pytest.mark.parametrize("at", [0, 1, 5, 9])
def test_an_interrupt_ends_with_the_best_so_far(at: int, workers: int) -> None:
    prober = InterruptedProber(needs(*PLANTED), workers, at=at)
    result = reduce(PROBLEM, prober)
    assert result.ended is Ending.INTERRUPTED
    assert not result.one_minimal
    assert (result.rounds, result.probes) == (at, len(prober.answers))
    failing = [candidate for candidate, fails in prober.answers.items() if fails]
    assert len(result.kept) == min(map(len, [PROBLEM.everything, *failing]))
    assert result.kept >= PLANTED


def test_an_interrupt_while_progress_is_drawn_keeps_the_best_so_far() -> None:
    def interrupted_at_success(progress: SearchProgress) -> None:
        if progress.atoms < PROBLEM.size:
            raise KeyboardInterrupt

    result = reduce(PROBLEM, FakeProber(needs(*PLANTED)), on_progress=interrupted_at_success)
    assert result.ended is Ending.INTERRUPTED
    assert PLANTED <= result.kept < PROBLEM.everything


def test_a_deadline_in_the_past_ends_at_once() -> None:
    result = reduce(PROBLEM, FakeProber(needs(*PLANTED)), budget=Budget(deadline=5.0, now=lambda: 5.0))
    assert (result.ended, result.probes, result.kept) == (Ending.DEADLINE, 0, PROBLEM.everything)


def test_a_deadline_ends_with_the_best_so_far() -> None:
    clock = Clock()

    def slow_after_a_success(candidate: Atoms) -> bool:
        if PLANTED <= candidate < PROBLEM.everything:
            clock.move(10.0)
        return candidate >= PLANTED

    budget = Budget.of(None, 1.0, clock())
    result = reduce(PROBLEM, FakeProber(slow_after_a_success), budget=replace(budget, now=clock))
    assert result.ended is Ending.DEADLINE
    assert PLANTED <= result.kept < PROBLEM.everything


def test_no_budget_is_needed_for_what_is_known() -> None:
    prober = FakeProber(needs(*PLANTED))
    whole = reduce(PROBLEM, prober)
    again = reduce(PROBLEM, FakeProber(needs()), known=prober.answers, budget=Budget(max_probes=0))
    assert (again.kept, again.ended, again.probes) == (whole.kept, Ending.PROVED, 0)


@pytest.mark.parametrize("probes", [8, 15])
def test_the_best_so_far_of_a_stopped_search_is_known_without_a_probe(probes: int) -> None:
    prober = FakeProber(needs(*PLANTED))
    stopped = reduce(PROBLEM, prober, budget=Budget(max_probes=probes))
    again = reduce(PROBLEM, FakeProber(needs()), known=prober.answers, budget=Budget(max_probes=0))
    assert again.kept == stopped.kept < PROBLEM.everything


def test_other_exceptions_are_passed_on() -> None:
    def broken(candidate: Atoms) -> bool:
        raise OSError("no space left on device")

    with pytest.raises(OSError, match="no space"):
        reduce(PROBLEM, FakeProber(broken))


def test_a_prober_that_leaves_a_candidate_unanswered_is_an_error() -> None:
    class Silent(FakeProber):
        def probe(self, candidates: Sequence[Atoms]) -> list[bool]:
            return super().probe(candidates)[1:]

    with pytest.raises(ValueError, match="shorter"):
        reduce(PROBLEM, Silent(needs(*PLANTED)))


def test_progress_tells_of_every_round() -> None:
    told: list[SearchProgress] = []
    prober = FakeProber(needs(*PLANTED), workers=2)
    result = reduce(PROBLEM, prober, on_progress=told.append)
    assert [each.rounds for each in told] == list(range(result.rounds))
    assert result.probes == sum(count.probes for count in result.phases)
    assert [each.probes for each in told] == [sum(map(len, prober.rounds[:n])) for n in range(result.rounds)]
    assert told[0].atoms == PROBLEM.size and told[-1].atoms == len(PLANTED)
    assert [each.atoms for each in told] == sorted((each.atoms for each in told), reverse=True)
    assert {each.phase for each in told} == set(SearchPhase)


def test_names_that_are_kept_in_files_do_not_change() -> None:
    assert [each.value for each in Ending] == ["proved", "max-probes", "deadline", "interrupted"]
    assert [each.value for each in SearchPhase] == ["guess", "prefix", "ball", "delete", "prove"]


def test_phases_follow_each_other_without_a_gap() -> None:
    result = reduce(PROBLEM, FakeProber(needs(*PLANTED)))
    before = [count.before for count in result.phases]
    after = [count.after for count in result.phases]
    assert [before[0], *after] == [104, *before[1:], 3]
    assert [count.name for count in result.phases] == ["guess", "prefix", "ball", "delete", "prove"]


@pytest.mark.parametrize("n", [0, 1])
def test_the_smallest_problems(n: int) -> None:
    problem = Problem(((),) * n, ("add",) * n)
    result = reduce(problem, FakeProber(needs(*range(n))), known={EMPTY: n == 0})
    assert (result.kept, result.ended, result.probes) == (problem.everything, Ending.PROVED, 0)


def test_a_surprise_in_the_proof_is_followed() -> None:
    """A spoiler makes domination wrong: the balls do not fail with it, and would without it."""
    reader = 90
    (read,) = PROBLEM.parents[reader]
    (spoiler,) = PROBLEM.parents[read]
    planted = frozenset({reader, read})

    def spoilt(candidate: Atoms) -> bool:
        return candidate >= planted and (spoiler not in candidate or len(candidate) > 30)

    result = reduce(PROBLEM, FakeProber(spoilt))
    proof = result.phases[-1]
    assert proof.phase is SearchPhase.PROVE
    assert proof.before > proof.after == 2
    assert result.kept == planted
    assert result.one_minimal


def test_a_surprise_that_frees_much_takes_halving_not_a_probe_for_each_atom() -> None:
    problem = transformer(300)
    planted, spoiler = frozenset({75, 249}), 0

    def spoilt(candidate: Atoms) -> bool:
        return candidate >= planted and (spoiler not in candidate or len(candidate) > 100)

    result = reduce(problem, FakeProber(spoilt))
    proof = result.phases[-1]
    assert (proof.phase, proof.before, proof.after) == (SearchPhase.PROVE, 100, 2)
    assert proof.probes <= 25
    assert result.kept == planted


@pytest.mark.parametrize(
    "broken", [{"parents": ((), (1,))}, {"parents": ((), (-1,))}, {"kinds": ("add",)}, {"hints": ((0, 2),)}]
)
def test_a_problem_that_is_no_graph_is_refused(broken: dict[str, tuple[tuple[int, ...], ...]]) -> None:
    whole = Problem(((), (0,)), ("add", "mul"), ((1,),))
    with pytest.raises(ValueError, match=r"atom|kinds"):
        replace(whole, **broken)
