"""The search's small parts: masks, the graph, and the look ahead."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st
from search_graphs import transformer

from minifier.search import Problem, SearchPhase, fewest
from minifier.search.atoms import Dataflow, atoms_of, mask_of, members, size, within
from minifier.search.phases import prefix
from minifier.search.walk import Ask, Done, Place, foresee

SETS = st.frozensets(st.integers(0, 300))
DIAMOND = Dataflow(Problem(((), (0,), (0,), (1, 2), (3,)), ("add",) * 5))


@given(SETS, SETS)
def test_masks_are_sets(one: frozenset[int], other: frozenset[int]) -> None:
    assert atoms_of(mask_of(one)) == one
    assert members(mask_of(one)) == sorted(one)
    assert size(mask_of(one)) == len(one)
    assert within(mask_of(one), mask_of(other)) == (one <= other)
    assert mask_of(one) & ~mask_of(other) == mask_of(one - other)


def test_a_ball_is_the_ancestors_within_a_radius() -> None:
    assert [atoms_of(DIAMOND.ball([4], radius)) for radius in (0, 1, 2, 3, 9)] == [
        {4},
        {4, 3},
        {4, 3, 2, 1},
        {4, 3, 2, 1, 0},
        {4, 3, 2, 1, 0},
    ]


def test_neighbours_are_what_it_reads_and_what_reads_it() -> None:
    assert atoms_of(DIAMOND.neighbours([3])) == {1, 2, 3, 4}
    assert atoms_of(DIAMOND.neighbours([1, 2])) == {0, 1, 2, 3}


def test_the_depth_first_order_keeps_neighbours_together_and_leaves_nothing_out() -> None:
    assert DIAMOND.depth_first(3, mask_of(range(5))) == (3, 1, 0, 2, 4)
    assert DIAMOND.depth_first(3, mask_of([0, 2, 3, 4])) == (3, 0, 2, 4)
    large = transformer(500)
    assert sorted(Dataflow(large).depth_first(250, mask_of(large.everything))) == list(range(500))


def test_looking_ahead_cuts_a_binary_search_in_equal_parts() -> None:
    place = Place(prefix(mask_of(range(64)), lambda kept, needed: Done(kept)))
    cuts = [size(ask.candidate) for ask in foresee(place, {}, 7)]
    assert cuts[0] == 32, "what is needed comes first"
    assert sorted(cuts) == [8, 16, 24, 32, 40, 48, 56]


def test_domination_counts_what_was_answered_on_the_way_only() -> None:
    def end(fails: bool) -> Done:
        return Done(0)

    ask = Ask(SearchPhase.DELETE, 0b011, 0.5, end, inferable=True)
    assert Place(ask).answer(ask, {0b111: False}) is None, "another's answer about a larger candidate"
    assert Place(ask, passing=(0b111,)).answer(ask, {}) is False
    assert Place(ask, passing=(0b111,)).answer(ask, {0b011: True}) is False, "whatever was speculated"
    real = Ask(SearchPhase.PROVE, 0b011, 0.5, end)
    assert Place(real, passing=(0b111,)).answer(real, {}) is None, "a proof infers nothing"


# The needed ones of a few things, each of which is dear to leave out.


@given(st.integers(1, 40).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1)))))
def test_exactly_the_needed_are_found(drawn):
    number, needed = drawn
    asked = []

    def shows(items):
        asked.append(items)
        return needed <= set(items)

    assert set(fewest(range(number), shows, number)) == needed
    assert len(asked) <= len(needed) * (math.ceil(math.log2(number)) + 1) + 1


def test_either_of_two_is_enough():
    assert fewest("abcd", lambda items: bool({"b", "d"} & set(items)), 4) == ("b",)


def test_no_more_than_asked_for():
    assert len(fewest("abcd", lambda items: len(items) == 4, 2)) == 2
