"""Integers, tolerances of the user's and random numbers: where right ends and wrong begins."""

import math

import pytest
import torch
from test_judgements import off, ones

from minifier.torch_side.compare.judge_tensor import (
    Judgement,
    Sample,
    depends_on_draws,
    is_near,
    judge_draws,
    judge_exact,
    judge_within,
)

NAN, INF = math.nan, math.inf


def at(*places, count=10, value=1):
    found = torch.zeros(count, dtype=torch.int64)
    found[list(places)] = value
    return found


@pytest.mark.parametrize(("places", "wrong"), [((3, 4), False), ((3, 4, 5), True), ((0, 3, 4), False)])
def test_twice_as_many_integers_may_differ_as_a_rounding_error_decides(places, wrong):
    sample = Sample(at(0, value=7), 1.0)
    found = judge_exact(at(*places, value=3), at(), None, [sample])
    assert found == Judgement(3.0, 0.0, 3.0 if 0 in places else 0.0, wrong, few=True)
    assert judge_exact(at(*places), at(), at(0)).wrong is wrong
    assert judge_exact(at(*places), at(), at(0)).noise is None
    assert judge_exact(at(*places), at(), None).wrong and not judge_exact(at(), at(), None).wrong


def test_the_distance_of_integers_is_that_from_eager():
    assert judge_exact(at(1, value=5), at(1, 2, value=3), None) == Judgement(3.0, 0.0, None, True, few=True)


@pytest.mark.parametrize(
    ("compiled", "wrong", "error"),
    [([1.0, 100.9], False, 0.9), ([1.0, 101.2], True, 1.2), ([1.15, 100.0], True, 0.15), ([0.95, 100.0], False, 0.05)],
)
def test_tolerances_are_those_of_assert_close(compiled, wrong, error):
    found = judge_within(torch.tensor(compiled), torch.tensor([1.0, 100.0]), 0.01, 0.1)
    assert (found.wrong, found.eager_error, found.noise) == (wrong, 0.0, None)
    assert found.error == pytest.approx(error, rel=1e-4)


def test_within_tolerances_nan_is_nan_and_complex_numbers_are_complex():
    strange = torch.tensor([NAN, INF, 1.0])
    assert judge_within(strange, strange, 0.0, 0.0) == Judgement(0.0, 0.0, None, False)
    assert judge_within(torch.tensor([1.0]), torch.tensor([NAN]), 1.0, 1.0).wrong
    assert judge_within(torch.tensor([1 + 2j]), torch.tensor([1 - 2j]), 0.0, 1.0) == Judgement(4.0, 0.0, None, True)


@pytest.mark.parametrize(("far", "wrong"), [(4.7, False), (4.9, True), (-4.5, False), (-4.6, True)])
def test_only_what_is_far_from_every_draw_is_wrong(far, wrong):
    found = judge_draws(ones() + far, ones(), [ones(), ones() + 1, ones() - 0.5])
    assert (found.wrong, found.non_finite, found.noise, found.few) == (wrong, False, 1.0, True)
    assert found.error == pytest.approx(abs(far), rel=1e-6) and found.eager_error == 0.0


def test_elements_that_vary_less_than_in_every_draw_are_wrong():
    """As of one draw in the place of two: their difference is zero."""
    torch.manual_seed(0)
    eager, *others = (torch.rand(64) - torch.rand(64) for _ in range(4))
    assert judge_draws(torch.zeros(64), eager, others).wrong
    assert not judge_draws(torch.rand(64) - torch.rand(64), eager, others).wrong
    assert not judge_draws(torch.zeros(8), eager[:8], [other[:8] for other in others]).wrong, "too few to tell"


def test_numbers_of_many_draws_are_far_from_their_mean():
    torch.manual_seed(0)
    draws = [(torch.randn(4, 256) - torch.randn(4, 256)).square().mean(1) for _ in range(10)]
    assert judge_draws(torch.zeros(4), draws[0], draws[1:]).wrong
    assert not judge_draws(torch.full((4,), 2.0), draws[0], draws[1:]).wrong


def with_first(value):
    return torch.cat([torch.tensor([value]), ones()])


@pytest.mark.parametrize(
    ("compiled", "eager", "draws", "wrong"),
    [
        (NAN, 1.0, [2.0, 3.0], True),
        (NAN, 1.0, [2.0, NAN], False),
        (NAN, NAN, [NAN], False),
        (1.0, NAN, [NAN], False),
        (1.0, NAN, [2.0], False),
    ],
)
def test_a_draw_may_be_no_number_where_one_of_eagers_is_none(compiled, eager, draws, wrong):
    found = judge_draws(with_first(compiled), with_first(eager), [with_first(value) for value in draws])
    assert (found.wrong, found.non_finite) == (wrong, wrong)


@pytest.mark.parametrize(
    ("eager", "other", "depends"),
    [
        (torch.zeros(9), torch.zeros(9), False),
        (torch.empty(0), torch.empty(0), False),
        (ones(), off(3.9), False),
        (ones(), off(4.1), True),
        (ones(), off(-4.1), True),
        (ones(), with_first(1.0), True),
        (with_first(NAN), with_first(NAN), False),
        (with_first(NAN), with_first(1.0), True),
        (at(1), at(1), False),
        (at(1), at(2), True),
        (at(1), at(1, count=11), True),
        (torch.complex(ones(), ones()), torch.complex(ones(), -ones()), True),
        (torch.complex(ones(), ones()), torch.complex(ones(), ones()), False),
    ],
)
def test_what_depends_on_draws_differs_by_more_than_rounding(eager, other, depends):
    assert depends_on_draws(eager, other) is depends


@pytest.mark.parametrize(("distance", "near"), [(0.0, True), (0.099, True), (0.101, False)])
def test_a_tenth_of_the_way_to_another_draw_is_near(distance, near):
    assert is_near(ones() + distance, ones(), ones() + 1) is near
    assert is_near(ones() + 1, ones(), ones() + 10) is False, "exactly a tenth"


def test_nearness_takes_sixteen_elements_that_differ():
    def differing(count):
        other = ones()
        other[:count] += 1
        return other

    assert is_near(ones(), ones(), differing(15)) is None and is_near(ones(), ones(), differing(16)) is True
    assert is_near(ones(99), ones(), differing(50)) is None and is_near(ones(), ones(), ones(99)) is None
    strange = differing(16)
    strange[0] = NAN
    for values in ((strange, ones(), differing(16)), (ones(), strange, differing(16)), (ones(), ones(), strange)):
        assert is_near(*values) is None
    strange = differing(17)
    strange[0] = NAN
    assert is_near(strange, ones(), differing(17)) is False
    assert is_near(ones(), ones(), strange) is True
