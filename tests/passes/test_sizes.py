"""Other sizes and dtypes of inputs, as plain data."""

from dataclasses import replace

import pytest
import torch
from case_samples import small_case
from hypothesis import given
from hypothesis import strategies as st

from minifier.case import Drawn, Recorded, Stored, TensorInput, TensorMeta
from minifier.case.inputs import Adapted
from minifier.case.values import contiguous_stride
from minifier.fx.recorded_values import _adapted
from minifier.passes.resized import converted, is_fixed, reshaped, restride, without_dim
from minifier.passes.sizes import numbers, smaller


def an_input(shape, stride=None, source=None, dtype="float32"):
    stride = contiguous_stride(shape) if stride is None else stride
    return TensorInput("x", TensorMeta(shape, stride, dtype), source or Drawn("randn"))


@pytest.mark.parametrize(
    ("number", "tried"),
    [
        (2, [1]),
        (3, [1, 2]),
        (4, [1, 2, 3]),
        (8, [1, 2, 3, 4, 6, 7]),
        (64, [1, 2, 3, 4, 16, 32, 48, 56, 60, 62, 63]),
        (100, [1, 2, 3, 4, 16, 64, 96, 98, 99]),
    ],
)
def test_numbers_below_a_number(number, tried):
    assert smaller(number) == tried


@given(st.integers(2, 100_000), st.integers(1, 100_000))
def test_the_smallest_size_is_found_in_steps_of_the_logarithm(start, least):
    least, number, probes, asked = min(least, start), start, 0, set()
    while number > 1:
        for candidate in smaller(number):
            if candidate not in asked:
                probes += 1
                asked.add(candidate)
            if candidate >= least:
                number = candidate
                break
        else:
            break
    assert number == least
    assert probes <= 2.5 * start.bit_length() + 5


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.randoms(use_true_random=False), st.integers(1, 3))
def test_strides_for_another_shape_keep_the_order_of_the_dimensions(shape, random, gap):
    order = list(range(len(shape)))
    random.shuffle(order)
    permuted = torch.empty([shape[i] for i in order] + [gap])[..., 0].permute(
        [order.index(i) for i in range(len(shape))]
    )
    meta = TensorMeta(tuple(permuted.shape), permuted.stride(), "float32")
    assert restride(meta, meta.shape) == meta.stride or meta.is_contiguous or 1 in shape
    larger = restride(meta, tuple(size + 1 for size in shape))
    assert len({*larger}) == len(shape) and min(larger) > 0
    if all(size > 1 for size in shape):
        assert sorted(order, key=larger.__getitem__) == sorted(order, key=meta.stride.__getitem__)


def test_dimensions_that_are_expanded_stay_so():
    assert restride(TensorMeta((4, 6), (0, 1), "float32"), (2, 3)) == (0, 1)
    assert restride(TensorMeta((4, 6), (1, 0), "float32"), (2, 3)) == (1, 0)


def test_the_stride_of_a_dimension_of_one_says_nothing():
    assert restride(TensorMeta((4, 1, 8), (16, 3, 1), "float32"), (4, 1, 8)) == (16, 8, 1)


def test_values_that_are_written_out_are_cut():
    item = an_input((2, 3), source=Drawn("list", values=(1, 2, 3, 4, 5, 6)))
    assert reshaped(item, (1, 2)).source.values == (1, 2)
    assert reshaped(item, (2, 2)).source.values == (1, 2, 4, 5)
    assert without_dim(reshaped(item, (1, 2)), 0).source.values == (1, 2)


@pytest.mark.parametrize("source", [Stored("x"), Recorded("x")])
def test_the_scripts_own_values_are_taken_from_the_corner(source):
    item = reshaped(an_input((2, 3), source=source), (2, 1))
    assert item.source == Adapted(source, an_input((2, 3)).meta) and item.meta.stride == (1, 1)
    again = converted(without_dim(reshaped(item, (1, 1)), 0), "float64")
    assert again.source == item.source and again.meta.shape == (1,) and again.meta.dtype == "float64"
    values = torch.tensor([[5.0, 6.0, 7.0], [8.0, 9.0, 10.0]])
    assert _adapted(values, item.meta).tolist() == [[5.0], [8.0]]
    assert _adapted(values, again.meta).tolist() == [5.0] and _adapted(values, again.meta).dtype == torch.float64


def test_inputs_that_share_their_memory_stay_as_they_are():
    item = an_input((2, 3), source=Stored("x", shared=True))
    assert is_fixed(item) and reshaped(item, (1, 1)) == item and converted(item, "float64") == item


def test_numbers_are_those_of_inputs_and_results():
    case = small_case()
    found = numbers(case)
    shapes = [item.meta.shape for item in case.inputs if isinstance(item, TensorInput)]
    assert found == sorted(found, reverse=True) and {n for shape in shapes for n in shape if n > 1} <= set(found)
    shared = tuple(
        replace(item, source=Stored("x", shared=True)) if isinstance(item, TensorInput) else item
        for item in case.inputs
    )
    assert set(numbers(replace(case, inputs=shared))) <= set(found)
