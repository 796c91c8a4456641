"""Other sizes and dtypes of inputs, as plain data."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from minifier.data.case import Drawn, Recorded, Stored, TensorInput, TensorMeta
from minifier.data.case.inputs import Adapted
from minifier.data.case.values import contiguous_stride
from minifier.reduction.passes.edits import converted, reshaped, restride, without_dim
from minifier.reduction.passes.sizes import smaller


def an_input(shape, stride=None, source=None, dtype="float32"):
    stride = contiguous_stride(shape) if stride is None else stride
    return TensorInput("x", TensorMeta(shape, stride, dtype), source or Drawn("randn"))


@settings(max_examples=50)
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


@pytest.mark.parametrize("source", [Stored("x"), Recorded("x")])
def test_the_scripts_own_values_are_taken_from_the_corner(source):
    item = reshaped(an_input((2, 3), source=source), (2, 1))
    assert item.source == Adapted(source, an_input((2, 3)).meta) and item.meta.stride == (1, 1)
    again = converted(without_dim(reshaped(item, (1, 1)), 0), "float64")
    assert again.source == item.source and again.meta.shape == (1,) and again.meta.dtype == "float64"
