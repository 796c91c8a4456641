"""The needed ones of a few things, each of which is dear to leave out."""

import math

from hypothesis import given
from hypothesis import strategies as st

from minifier.search import fewest


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
