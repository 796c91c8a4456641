"""The elements of a wrong tensor that the report names: where they are, what they are, how far off."""

import math

import pytest
import torch

from minifier.data.failure import ElementPair
from minifier.torch_side.compare.judge_results import furthest_elements


def test_the_furthest_elements_come_first_with_their_index_and_ulps():
    eager = torch.ones(3, 4)
    compiled = eager.clone()
    compiled[1, 2] += 4 * torch.finfo(torch.float32).eps
    compiled[2, 0] = 2.0
    assert furthest_elements(compiled, eager) == (
        ElementPair((2, 0), "2", "1", 2.0**23),
        ElementPair((1, 2), "1.0000005", "1", 4.0),
    )


def test_nans_and_infinities_come_first_and_equal_ones_do_not_count():
    eager = torch.tensor([math.inf, math.nan, 1.0, 2.0])
    compiled = torch.tensor([math.inf, math.nan, math.nan, 9.0])
    assert furthest_elements(compiled, eager) == (
        ElementPair((2,), "nan", "1"),
        ElementPair((3,), "9", "2", 7 / (2 * torch.finfo(torch.float32).eps)),
    )


@pytest.mark.parametrize(
    ("dtype", "value"), [(torch.float16, 1.0), (torch.bfloat16, 3.0), (torch.float32, -0.7), (torch.float64, 1e-3)]
)
def test_the_next_number_is_one_ulp_away(dtype, value):
    eager = torch.tensor(value, dtype=dtype)
    bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]
    (seen,) = furthest_elements((eager.view(bits) + 1).view(dtype), eager)
    assert seen.ulps == 1.0 and seen.index == () and seen.compiled != seen.eager


@pytest.mark.parametrize(
    ("compiled", "eager", "said"),
    [
        (torch.tensor([5, 7]), torch.tensor([5, 8]), ("7", "8")),
        (torch.tensor([2**62 + 1]), torch.tensor([2**62]), (str(2**62 + 1), str(2**62))),
        (torch.tensor([0.5]), torch.tensor([0.0]), ("0.5", "0")),
        (torch.tensor([True]), torch.tensor([False]), ("True", "False")),
        (torch.tensor([1 + 2j]), torch.tensor([1 - 2j]), ("1+2j", "1-2j")),
        (torch.tensor([1.5], dtype=torch.float64), torch.tensor([1]), ("1.5", "1")),
    ],
)
def test_numbers_without_ulps(compiled, eager, said):
    (seen,) = furthest_elements(compiled, eager)
    assert (seen.compiled, seen.eager, seen.ulps) == (*said, None)


def test_an_empty_tensor_has_none():
    assert furthest_elements(torch.ones(0), torch.ones(0)) == ()
