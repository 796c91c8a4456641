"""Where right ends and wrong begins: each limit from both sides, in units of eps of float32."""

import math

import pytest
import torch

from minifier.torch_side.compare.judge_tensor import Judgement, Sample, eps_of, judge_floats

EPS = 2.0**-23
NAN, INF = math.nan, math.inf


def ones(count=100):
    return torch.ones(count)


def off(eps, count=100, at=slice(None)):
    """Ones, but for an error of so many eps; wide, so that fractions of eps can be told."""
    value = torch.ones(count, dtype=torch.float64)
    value[at] += eps * EPS
    return value


def judged(compiled, eager=None, reference=None, samples=()):
    eager = ones(compiled.numel()) if eager is None else eager
    reference = ones(compiled.numel()).double() if reference is None else reference
    return judge_floats(compiled, eager, reference, samples)


@pytest.mark.parametrize(("eps", "wrong"), [(0, False), (2.49, False), (2.51, True), (-2.51, True)])
@pytest.mark.parametrize("at", [slice(None), 7], ids=["all", "one"])
def test_ten_times_what_correct_rounding_makes_is_right_where_eager_is_exact(eps, wrong, at):
    found = judged(off(eps, at=at))
    assert (found.wrong, found.non_finite, found.eager_error, found.noise) == (wrong, False, 0.0, None)
    assert found.error == pytest.approx(abs(eps) * EPS, abs=EPS / 1e6)


@pytest.mark.parametrize(("eps", "wrong"), [(9.9, False), (10.1, True)])
def test_four_times_that_is_right_without_a_reference(eps, wrong):
    assert judge_floats(off(eps), ones(), None, [Sample(ones(), 1.0)]).wrong is wrong
    assert judge_floats(off(eps), ones(), None).wrong is wrong


@pytest.mark.parametrize(("eps", "wrong"), [(-39, False), (-41, True), (49, False), (51, True)])
def test_ten_times_eagers_own_error_is_right(eps, wrong):
    found = judged(off(eps), off(5).float() if eps > 0 else off(4).float())
    assert found.wrong is wrong and found.eager_error == (5 if eps > 0 else 4) * EPS


@pytest.mark.parametrize("at", [slice(None), 7], ids=["all", "one"])
@pytest.mark.parametrize(("eps", "wrong"), [(39.9, False), (40.1, True)])
def test_four_times_what_eager_moves_by_is_right(eps, wrong, at):
    found = judged(off(eps, at=at), samples=[Sample(off(1), 1.0), Sample(off(10), 1.0), Sample(off(2), 1.0)])
    assert found.wrong is wrong and found.noise == pytest.approx(10 * EPS)


@pytest.mark.parametrize(
    ("count", "eps", "wrong"), [(32, 19.9, False), (32, 20.1, True), (31, 39.9, False), (31, 40.1, True)]
)
def test_noise_is_that_of_one_step_unless_elements_are_few(count, eps, wrong):
    assert judged(off(eps, count), samples=[Sample(off(10, count), 2.0)]).wrong is wrong


def test_the_largest_elements_allow_more_for_one_and_all_together_for_all():
    reference = off(0)
    reference[0] = 100.0
    eager = reference.float()

    def with_error(eps, at):
        compiled = reference.clone()
        compiled[at] += eps * EPS
        return judge_floats(compiled, eager, reference).wrong

    assert [with_error(eps, 5) for eps in (249, 251)] == [False, True]
    assert [with_error(eps, slice(None)) for eps in (24.9, 26.5)] == [False, True]


@pytest.mark.parametrize(("own", "wrong"), [(99.5, False), (100.5, True)])
def test_a_reference_far_from_an_eager_that_hardly_moves_computes_something_else(own, wrong):
    reference = off(own)
    found = judge_floats(off(5), ones(), reference, [Sample(ones(), 1.0)])
    assert found.wrong is wrong
    assert (found.eager_error == 0.0) is wrong and found.error == pytest.approx((5 if wrong else own - 5) * EPS)
    assert not judge_floats(off(5), ones(), reference).wrong, "nobody knows how eager moves"
    assert not judge_floats(off(5), ones(), reference, [Sample(off(10), 1.0)]).wrong, "eager moves"


def jumping(jumps):
    """Eager moved by one eps, and one element by more."""
    value = off(1)
    value[3] += (jumps - 1) * EPS
    return Sample(value, 1.0)


@pytest.mark.parametrize(("jumps", "noise"), [(89.9, 89.9), (90.1, 1.0)])
def test_an_element_that_moves_thirty_times_as_far_as_the_others_has_jumped(jumps, noise):
    found = judged(off(0), samples=[jumping(jumps)])
    assert found.noise == pytest.approx(noise * EPS) and not found.wrong


def test_a_tenth_of_the_elements_may_be_the_ones_that_jump():
    ten, eleven = off(1), off(1)
    ten[:9] += 1.0
    eleven[:11] += 1.0
    assert judged(off(0), samples=[Sample(ten, 1.0)]).noise == pytest.approx(EPS)
    assert judged(off(0), samples=[Sample(eleven, 1.0)]).noise == pytest.approx(1.0, rel=1e-3)


def test_a_jump_is_measured_in_the_steps_that_the_inputs_moved():
    value = off(1)
    value[3] += 100 * EPS
    assert judged(off(0), samples=[Sample(value, 1.0)]).noise == pytest.approx(EPS)
    assert judged(off(0), samples=[Sample(value, 2.0)]).noise == pytest.approx(101 / 2 * EPS)


def test_as_many_elements_may_jump_as_jump_in_eager():
    one, two = off(0), off(0)
    one[10] += 1.0
    two[10:12] += 1.0
    assert not judged(one, samples=[jumping(1e6)]).wrong and judged(one, samples=[Sample(off(1), 1.0)]).wrong
    assert judged(two, samples=[jumping(1e6)]).wrong
    assert judged(one, samples=[jumping(1e6)]).error == 0.0, "what jumped tells no distance"
    rest = one + 30 * EPS
    assert judged(rest, samples=[jumping(1e6)]).wrong, "the others must be right all the same"


@pytest.mark.parametrize(
    ("count", "wrong_ones", "few"),
    [(1000, 1000, False), (400, 31, True), (640, 32, False), (641, 32, True), (31, 31, True)],
)
def test_a_verdict_rests_on_few_elements_below_32_or_a_twentieth(count, wrong_ones, few):
    found = judged(off(1000, count, slice(wrong_ones)))
    assert found.wrong and found.few is few


@pytest.mark.parametrize(
    ("compiled", "eager", "reference", "wrong"),
    [
        (NAN, 1.0, 1.0, True),
        (INF, 1.0, 1.0, True),
        (1.0, NAN, NAN, True),
        (NAN, NAN, NAN, False),
        (INF, INF, INF, False),
        (-INF, INF, INF, True),
        (NAN, INF, INF, True),
        (INF, 1.0, INF, False),
        (1.0, INF, 1.0, False),
    ],
)
def test_what_is_no_number_is_so_in_eager_or_the_reference_as_well(compiled, eager, reference, wrong):
    def with_first(value):
        return torch.cat([torch.tensor([value], dtype=torch.float64), off(0, 50)])

    found = judge_floats(with_first(compiled), with_first(eager).float(), with_first(reference))
    assert (found.wrong, found.non_finite, found.error) == (wrong, wrong, 0.0)
    assert found.few


@pytest.mark.parametrize(
    ("compiled", "reference", "wrong"),
    [
        (INF, 65_000.0, False),
        (INF, 64_992.25, False),
        (INF, 64_992.0, True),
        (-INF, -65_000.0, False),
        (60_000.0, 65_000.0, True),
    ],
)
def test_near_overflow_infinity_is_right(compiled, reference, wrong):
    values = [torch.tensor([value] + [1.0] * 50, dtype=torch.float64) for value in (compiled, reference)]
    assert judge_floats(values[0].half(), values[1].half(), values[1]).wrong is wrong


def test_an_element_that_is_a_number_in_some_runs_of_eager_only_says_nothing():
    moved = off(0)
    moved[0] = NAN
    assert not judged(torch.where(torch.arange(100) == 0, INF, off(0)), samples=[Sample(moved, 1.0)]).wrong


def test_where_eager_gives_no_number_at_all_nothing_is_settled():
    nothing = torch.full((4,), NAN)
    assert not judge_floats(nothing, nothing, nothing.double(), [Sample(nothing, 1.0)]).wrong
    assert not judge_floats(torch.ones(4), torch.ones(4), None, [Sample(nothing, 1.0)]).wrong


def test_tensors_without_elements_are_right():
    empty = torch.empty(0)
    assert judge_floats(empty, empty, empty.double()) == Judgement(0.0, 0.0, None, False, few=True, limit=0.0)
    assert judge_floats(empty, empty, None, [Sample(empty, 1.0)]).noise == 0.0


def test_parts_of_complex_numbers_are_judged_each():
    value = torch.complex(ones(), ones())
    conjugate = value.conj()
    assert not judge_floats(value, value, value.to(torch.complex128)).wrong
    assert judge_floats(conjugate, value, value.to(torch.complex128)).error == 2.0
    assert eps_of(torch.complex64) == eps_of(torch.float32) == EPS
