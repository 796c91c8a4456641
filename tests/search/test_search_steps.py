"""Each phase alone: exactly what it asks, in which order, and what idle workers are given meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from search_faults import FakeProber, Fault, needs

from minifier.search import Atoms, Problem, SearchPhase, reduce
from minifier.search.dataflow import Dataflow
from minifier.search.delete import delete, halve
from minifier.search.guess import first_of_each_kind, guess
from minifier.search.masks import Mask, atoms_of, mask_of
from minifier.search.narrow import ball, prefix
from minifier.search.phases import plan
from minifier.search.place import Place, foresee
from minifier.search.prove import prove
from minifier.search.steps import Ask, Done, Step


class Lenient(FakeProber):
    """Takes a candidate even if it says that it has no worker."""

    def probe(self, candidates: Sequence[Atoms]) -> list[bool]:
        self.rounds.append(list(candidates))
        return [self.fault(candidate) for candidate in candidates]


CHAIN = Problem(((), *((i,) for i in range(15))), ("f",) * 16)
FLOW = Dataflow(CHAIN)


def asked(step: Step, fault: Fault) -> tuple[list[tuple[int, ...]], tuple[int, ...]]:
    """All candidates that are asked about, inferred ones too, and what is kept."""
    candidates = []
    while isinstance(step, Ask):
        candidate = atoms_of(step.candidate)
        candidates.append(tuple(sorted(candidate)))
        step = step.answered(fault(candidate))
    return candidates, tuple(sorted(atoms_of(step.kept)))


def ahead(step: Step, workers: int) -> list[tuple[int, ...]]:
    """What so many workers are given in the first round."""
    return [tuple(sorted(atoms_of(ask.candidate))) for ask in foresee(Place(step), {}, workers)]


def without(step: Step, answers: int) -> Step:
    """The step after so many questions of which none failed."""
    for _ in range(answers):
        assert isinstance(step, Ask)
        step = step.answered(False)
    return step


def span(first: int, last: int) -> tuple[int, ...]:
    return tuple(range(first, last + 1))


def all_of(count: int) -> Mask:
    return mask_of(range(count))


def located(kept: Mask, needed: int) -> Step:
    return Done(kept | 1 << 20 + needed)  # the needed atom, as a mark that cannot be mistaken for an atom


def test_up_to_five_atoms_go_one_by_one_the_far_end_first() -> None:
    candidates, kept = asked(delete(all_of(5), span(0, 4), Done), needs(2))
    assert candidates == [(0, 1, 2, 3), (0, 1, 2), (0, 1), (0, 2), (2,)]
    assert kept == (2,)
    assert asked(delete(all_of(3), (), Done), needs()) == ([], (0, 1, 2))


def test_groups_double_where_they_can_go_and_halve_where_they_cannot() -> None:
    candidates, kept = asked(delete(all_of(16), span(0, 15), Done), needs(5))
    assert candidates == [
        span(8, 15),  # half of them: 5 is needed
        span(4, 15),
        span(6, 15),
        span(5, 15),  # so it is 5, and the group is four
        (5, *span(10, 15)),
        (5,),  # eight at most
    ]
    assert kept == (5,)


def test_groups_go_on_doubling() -> None:
    candidates, kept = asked(delete(all_of(40), span(0, 39), Done), needs(5))
    assert candidates[-3:] == [(5, *span(16, 39)), (5, *span(36, 39)), (5,)], "ten, twenty and the rest"
    assert kept == (5,)


def test_a_group_of_one_is_not_halved() -> None:
    candidates, kept = asked(delete(all_of(6), span(0, 5), Done), needs(*range(6)))
    assert kept == span(0, 5)
    assert candidates == [
        (3, 4, 5),
        span(1, 5),
        (0, *span(2, 5)),
        (0, 1, *span(3, 5)),
        (0, 1, 2, 4, 5),
        (*span(0, 3), 5),
        span(0, 4),
    ]


def test_halving_takes_chunks_down_to_pairs() -> None:
    candidates, kept = asked(halve(all_of(8), span(0, 7), Done), needs(5))
    assert candidates == [span(4, 7), (), (6, 7), (4, 5)]
    assert kept == (4, 5)
    candidates, kept = asked(halve(all_of(9), span(0, 8), Done), needs(2, 8))
    assert candidates == [span(4, 8), (*span(0, 3), 8), span(0, 3), (2, 3, 8), (8,), (2, 3)]
    assert kept == (2, 3, 8)


def test_halving_starts_again_with_what_is_left() -> None:
    candidates, kept = asked(halve(all_of(12), span(0, 11), Done), needs(0, 11))
    nine, ten = (*span(0, 2), *span(6, 11)), (*span(0, 2), *span(9, 11))
    assert candidates == [span(6, 11), span(0, 5), span(3, 11), nine, ten, (0, 1, 2)]
    assert kept == ten


def test_a_prefix_is_found_by_halving_and_its_last_atom_is_needed() -> None:
    candidates, kept = asked(prefix(all_of(16), located), needs(5))
    assert candidates == [span(0, 7), span(0, 3), span(0, 5), span(0, 4)]
    assert kept == (*span(0, 5), 25)
    candidates, kept = asked(prefix(mask_of([1, 4, 9]), located), needs(4))
    assert (candidates, kept) == ([(1,), (1, 4)], (1, 4, 24))
    assert asked(prefix(mask_of([7]), located), needs(7)) == ([], (7, 27))


def test_balls_grow_around_the_needed_atom_until_one_fails() -> None:
    assert asked(ball(FLOW, all_of(16), 15, located), needs(15, 14)) == ([(15,), (13, 14, 15)], (13, 14, 15, 35))
    assert asked(ball(FLOW, all_of(16), 15, located), needs(0)) == (
        [(15,), (13, 14, 15), span(9, 15)],
        (*span(0, 15), 35),
    )
    assert asked(ball(FLOW, all_of(3), 2, located), needs(0)) == ([(2,)], (0, 1, 2, 22)), "the next ball is everything"


def test_the_proof_deletes_each_atom_alone_and_stops_after_the_last() -> None:
    assert asked(prove(all_of(3), (2, 1, 0)), needs(0, 1, 2)) == ([(0, 1), (0, 2), (1, 2)], (0, 1, 2))


def test_after_a_surprise_what_was_judged_is_judged_again_and_large_parts_are_tried() -> None:
    def spoilt(candidate: frozenset[int]) -> bool:
        return 9 in candidate and (3 not in candidate or len(candidate) == 10)

    candidates, kept = asked(prove(all_of(10), tuple(reversed(range(10)))), spoilt)
    assert candidates[:7] == [tuple(i for i in range(10) if i != gone) for gone in (9, 8, 7, 6, 5, 4, 3)]
    assert candidates[7:11] == [span(4, 8), (0, 1, 2, 4, 9), (0, 1, 2, 9), (0, 9)]
    assert candidates[11:] == [(), (9,), ()], "the pair that is left, and the proof"
    assert kept == (9,)


def test_a_second_surprise_goes_on_round_and_round() -> None:
    def fault(candidate: frozenset[int]) -> bool:
        return len(candidate) in (4, 3, 2) and 0 in candidate

    candidates, kept = asked(prove(all_of(4), (3, 2, 1, 0)), fault)
    assert candidates == [(0, 1, 2), (0, 1), (0,), (1,)]
    assert kept == (0, 1)


def kinds(names: str, *hints: tuple[int, ...]) -> Problem:
    return Problem(((), *((i,) for i in range(len(names) - 1))), tuple(names), hints)


def guesses(problem: Problem, fault: Fault) -> tuple[list[tuple[int, ...]], tuple[int, ...]]:
    return asked(guess(problem, Dataflow(problem), mask_of(problem.everything), Done), fault)


def test_the_first_of_each_kind_is_the_guess_where_nothing_is_hinted() -> None:
    problem = kinds("aabbca")
    assert first_of_each_kind(problem, [5, 4, 3, 2]) == [5, 4, 3]
    assert guesses(problem, needs(0, 2)) == ([(0, 2, 4)], (0, 2, 4))
    assert guesses(problem, needs(1)) == ([(0, 2, 4)], span(0, 5))
    assert guesses(kinds("abc"), needs(1)) == ([], (0, 1, 2)), "that is everything"


def test_hints_are_tried_from_the_boldest_to_the_safest_six_at_most() -> None:
    problem = kinds("abababababab", (5, 7), (), (2,))
    candidates, kept = guesses(problem, needs(11))
    assert candidates == [(5,), (2,), (5, 7), (4, 5, 6, 7, 8), (1, 2, 3), span(3, 7), (0, 1)]
    assert kept == span(0, 11)


def test_a_guess_that_fails_leaves_only_smaller_ones_and_two_atoms_are_enough() -> None:
    problem = kinds("abababababab", (5, 7), (6, 7, 8))
    assert guesses(problem, needs(5, 7)) == ([(5,), (6, 7), (5, 7)], (5, 7))
    assert guesses(problem, needs(6, 7, 8)) == ([(5,), (6, 7), (5, 7), (6, 7, 8)], (6, 7, 8))


def with_15(kept: Mask) -> Step:
    """A next phase, whose candidate can be told by atom 15."""
    return Ask(SearchPhase.DELETE, kept | 1 << 15, 0.5, lambda fails: Done(kept))


HINTED = kinds("abcabcabcabc", (3, 4, 5), (6, 7, 8, 9))


@pytest.mark.parametrize(
    ("step", "workers", "candidates"),
    [
        (prove(all_of(4), (3, 2, 1, 0)), 4, [(0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3)]),
        (delete(all_of(4), span(0, 3), Done), 3, [(0, 1, 2), (0, 1, 3), (0, 1)]),
        (delete(all_of(8), span(0, 7), Done), 3, [(4, 5, 6, 7), (), (2, 3, 4, 5, 6, 7)]),
        (without(delete(all_of(16), span(0, 15), Done), 1), 3, [span(4, 15), span(6, 15), span(2, 15)]),
        (ball(FLOW, all_of(16), 12, lambda kept, _: with_15(kept)), 3, [(12,), (12, 15), (10, 11, 12)]),
        (guess(HINTED, Dataflow(HINTED), all_of(12), with_15), 3, [(3, 4, 5), (3, 4, 5, 15), (6, 7, 8)]),
        (prefix(all_of(8), located), 3, [span(0, 3), (0, 1), span(0, 5)]),
        (halve(all_of(16), span(0, 15), Done), 3, [span(8, 15), (), span(0, 7)]),
        (
            without(halve(all_of(16), span(0, 15), Done), 2),
            3,
            [span(4, 15), (*span(0, 3), *span(8, 15)), (*span(0, 7), *span(12, 15))],
        ),
        (halve(all_of(9), span(0, 8), Done), 3, [span(4, 8), (*span(0, 3), 8), span(0, 7)]),
    ],
    ids=[
        "proof",
        "one by one",
        "groups",
        "a split",
        "balls",
        "guesses",
        "prefix",
        "halves",
        "quarters",
        "a little more than halves",
    ],
)
def test_idle_workers_are_given_what_is_likeliest_to_be_asked_next(
    step: Step, workers: int, candidates: list[tuple[int, ...]]
) -> None:
    assert ahead(step, workers) == candidates
    assert ahead(step, 1) == candidates[:1]


def test_what_is_known_or_dominated_is_passed_through_and_nothing_is_picked_twice() -> None:
    def end(_: bool) -> Step:
        return Done(0)

    same = Ask(SearchPhase.PROVE, 0b11, 0.5, lambda fails: Ask(SearchPhase.PROVE, 0b11, 0.5, end))
    assert len(foresee(Place(same), {}, 3)) == 1
    assert foresee(Place(same), {0b11: True}, 3) == [] and foresee(Place(Done(0)), {}, 3) == []


def test_looking_ahead_ends_after_eight_questions_a_worker() -> None:
    def known(number: int) -> Callable[[bool], Step]:
        return lambda fails: Ask(SearchPhase.PROVE, number, 0.5, known(number + 1))

    step = Ask(SearchPhase.PROVE, 0, 0.5, known(1))
    assert foresee(Place(step), dict.fromkeys(range(7), True), 1)[0].candidate == 7
    assert foresee(Place(step), dict.fromkeys(range(8), True), 1) == []
    assert foresee(Place(step), dict.fromkeys(range(15), True), 2)[0].candidate == 15


@pytest.mark.parametrize(("workers", "given"), [(0, 1), (1, 1), (3, 3)])
def test_every_worker_is_given_a_candidate_and_one_is_asked_about_without_any(workers: int, given: int) -> None:
    prober = Lenient(needs(3, 12), workers)
    assert reduce(CHAIN, prober).kept == {3, 12}
    assert len(prober.rounds[0]) == given


def test_the_phases_of_a_search_follow_each_other() -> None:
    candidates, kept = asked(plan(CHAIN), needs(5, 12))
    assert candidates[0] == (0,), "the first of its only kind"
    assert candidates[1:6] == [span(0, 7), span(0, 11), span(0, 13), span(0, 12), (12,)]
    assert candidates[6:8] == [(10, 11, 12), span(6, 12)], "the balls"
    assert candidates[8:12] == [(*span(0, 5), 12), (12,), (0, 1, 2, 12), (*span(0, 4), 12)], "groups"
    assert candidates[12:] == [(5, 12), (5,), (12,)], "the proof"
    assert kept == (5, 12)
    assert plan(Problem((), ())) == Done(0)
