"""Inputs that are windows of a larger storage, or views of one another, as a script makes them."""

from dataclasses import replace

import pytest
import torch
from case_text import case_of

from minifier.case import Drawn, Stored, TensorInput, TensorMeta
from minifier.emit.input_source import input_lines
from minifier.failure import Stage
from minifier.fx.recorded_values import make_inputs
from minifier.fx.tensors import StoredTensors

GRAPH = "x: float32[4, 6]\ny: float32[3, 6]\nz = torch.f(x, y)\nreturn z"


def with_inputs(*inputs):
    case = case_of(GRAPH)
    fingerprint = replace(case.failure.fingerprint, stage=Stage.RUN)
    return replace(case, inputs=inputs, failure=replace(case.failure, fingerprint=fingerprint))


def window(shape, stride, offset=0, storage=0, leaf=True, requires_grad=False, source=Drawn("randn")):  # noqa: B008
    meta = TensorMeta(shape, stride, "float32", requires_grad=requires_grad, offset=offset)
    return TensorInput("x", meta, source, leaf, storage=storage)


def facts(tensor):
    base = None if tensor._base is None else tuple(tensor._base.shape)
    layout = tuple(tensor.shape), tensor.stride(), tensor.storage_offset(), tensor.untyped_storage().nbytes()
    return tensor.tolist(), layout, base, tensor.requires_grad, tensor.is_leaf


@pytest.mark.parametrize(
    ("item", "line"),
    [
        (window((10,), (1,), 0, 20), "x = torch.randn(20)[:10]"),
        (window((10,), (1,), 10, 20), "x = torch.randn(20)[10:]"),
        (window((2, 3), (6, 1), 4, 30), "x = torch.randn(30).as_strided((2, 3), (6, 1), 4)"),
        (window((2,), (2,), 0, 9, requires_grad=True), "x = torch.randn(9).as_strided((2,), (2,)).requires_grad_()"),
        (window((2,), (1,), 3, 9, False, True), "x = torch.randn(9).requires_grad_().clone()[3:5]"),
        (window((2,), (1,), 1, 9, source=Drawn("rand", 0.0, 2.0)), "x = (torch.rand(9) * 2.0)[1:3]"),
    ],
)
def test_a_window_is_written_as_it_is_made(item, line):
    _, (_, written), stored = input_lines(with_inputs(item), {"x": "x"})
    assert written == line and not stored
    names = {"torch": torch}
    torch.manual_seed(0)
    exec(written, names)
    (made,) = make_inputs([item], StoredTensors(None), None)
    assert facts(names["x"]) == facts(made)


@pytest.mark.parametrize(
    ("shape", "stride", "offset", "line"),
    [
        ((3, 6), (6, 1), 6, "y = x[1:]"),
        ((2, 6), (6, 1), 6, "y = x[1:3]"),
        ((6, 4), (1, 6), 0, "y = x.as_strided((6, 4), (1, 6))"),
        ((2, 2), (6, 1), 7, "y = x.as_strided((2, 2), (6, 1), 7)"),
    ],
)
def test_a_view_is_written_after_its_base(shape, stride, offset, line):
    view = TensorInput("y", TensorMeta(shape, stride, "float32", offset=offset), Stored("x", base="x"))
    case = with_inputs(view, window((4, 6), (6, 1)))
    _, lines, stored = input_lines(case, {"x": "x", "y": "y"})
    assert lines == ["torch.manual_seed(0)", "x = torch.randn(4, 6)", line] and not stored
    names = {"torch": torch}
    exec("\n".join(lines), names)
    y, x = make_inputs(case.inputs, StoredTensors(None), None)
    assert y._base is x and facts(names["y"]) == facts(y)


@pytest.mark.parametrize("leaf", [True, False])
def test_a_view_of_a_base_that_requires_grad_is_a_leaf_if_made_without_grad_mode(leaf):
    base = window((4, 6), (6, 1), requires_grad=True)
    meta = TensorMeta((3, 6), (6, 1), "float32", requires_grad=True, offset=6)
    view = TensorInput("y", meta, Stored("x", base="x"), leaf)
    _, lines, _ = input_lines(with_inputs(base, view), {"x": "x", "y": "y"})
    names = {"torch": torch}
    exec("\n".join(lines), names)
    _, y = make_inputs((base, view), StoredTensors(None), None)
    assert facts(names["y"]) == facts(y) and y.is_leaf is leaf and y._base is not None


def test_without_its_base_a_view_is_what_is_stored():
    view = TensorInput("y", TensorMeta((3, 6), (6, 1), "float32", offset=6), Stored("x", shared=True, base="x"))
    _, lines, stored = input_lines(with_inputs(view), {"y": "y"})
    assert stored and "tensors['x']" in lines[-1].replace('"', "'")
