"""Inputs to plain contiguous tensors."""

from dataclasses import replace

import pytest
from case_text import case_of
from pass_rows import made

from minifier.data.case import Stored, TensorMeta


def strided(*values):
    """A Case with inputs a, b ... of these shapes and strides."""
    names = "abcd"[: len(values)]
    case = case_of("".join(f"{name}: float32[1]\n" for name in names) + f"y = torch.f({', '.join(names)})\nreturn y")
    metas = [TensorMeta(shape, stride, "float32", storage=3, offset=5) for shape, stride in values]
    inputs = tuple(replace(item, meta=meta) for item, meta in zip(case.inputs, metas, strict=True))
    return replace(case, inputs=inputs)


@pytest.mark.parametrize(
    ("shape", "stride", "contiguous", "dense"),
    [
        ((2, 3), (1, 2), (3, 1), (1, 2)),
        ((2, 3), (6, 2), (3, 1), (3, 1)),
        ((2, 3), (0, 1), (3, 1), (1, 2)),
        ((2, 3, 4), (1, 20, 3), (12, 4, 1), (1, 8, 2)),
        ((1, 2, 3), (1, 1, 2), (6, 3, 1), (2, 1, 2)),
    ],
)
def test_an_input_becomes_contiguous_or_at_least_dense_in_its_own_order(shape, stride, contiguous, dense):
    case = strided((shape, stride), ((2,), (1,)))
    found = made("layout", case)
    assert list(found) == ["stride of a"]
    for changed, expected in zip(found["stride of a"], (contiguous, dense), strict=True):
        assert changed.inputs[0].meta == TensorMeta(shape, expected, "float32")
        assert changed.inputs[1:] == case.inputs[1:]


def test_stored_values_keep_their_strides():
    case = strided(((2, 3), (1, 2)))
    assert made("layout", replace(case, inputs=(replace(case.inputs[0], source=Stored("a")),))) == {}


def test_a_storage_becomes_no_larger_than_needed():
    case = strided(((3,), (1,)), ((2,), (1,)))
    window = replace(case.inputs[0], storage=20)
    found = made("layout", replace(case, inputs=(window, case.inputs[1])))
    assert list(found) == ["storage of a"]
    whole, *smaller = (changed.inputs[0] for changed in found["storage of a"])
    assert (whole.storage, whole.meta.offset) == (0, 0)
    assert [item.storage for item in smaller] == [16, 18, 19] and {item.meta.offset for item in smaller} == {5}
    stored = replace(window, source=Stored("a", offset=5))
    assert made("layout", replace(case, inputs=(stored, case.inputs[1]))) == {}
