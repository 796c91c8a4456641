"""Inputs that are windows of a larger storage, or views of one another, as a script makes them."""

from dataclasses import replace

import pytest
import torch
from case_text import case_of

from minifier.data.case import Drawn, Stored, TensorInput, TensorMeta
from minifier.data.failure import Stage
from minifier.repro.emit.input_source import input_lines
from minifier.torch_side.fx.inputs import make_inputs
from minifier.torch_side.fx.tensors import StoredTensors

GRAPH = "x: float32[4, 6]\ny: float32[3, 6]\nz = torch.f(x, y)\nreturn z"


def window(shape, stride, offset=0, storage=0, leaf=True, requires_grad=False, source=Drawn("randn")):  # noqa: B008
    meta = TensorMeta(shape, stride, "float32", requires_grad=requires_grad, offset=offset)
    return TensorInput("x", meta, source, leaf, storage=storage)


def view(shape, stride, offset, leaf=True, requires_grad=False, **source):
    meta = TensorMeta(shape, stride, "float32", requires_grad=requires_grad, offset=offset)
    return TensorInput("y", meta, Stored("x", base="x", **source), leaf)


def of_storage(name, shape, stride, offset):
    return TensorInput(name, TensorMeta(shape, stride, "float32", offset=offset), Drawn("randn", storage="s"))


def lines_for(*inputs):
    """The lines of a script that make these inputs, and whether they read a file."""
    case = case_of(GRAPH)
    fingerprint = replace(case.failure.fingerprint, stage=Stage.RUN)
    case = replace(case, inputs=inputs, failure=replace(case.failure, fingerprint=fingerprint))
    _, lines, stored = input_lines(case, {item.name: item.name for item in inputs} | {"s": "base"})
    return lines, stored


def facts(tensor):
    base = None if tensor._base is None else tuple(tensor._base.shape)
    layout = tuple(tensor.shape), tensor.stride(), tensor.storage_offset(), tensor.untyped_storage().nbytes()
    return tensor.tolist(), layout, base, tensor.requires_grad, tensor.is_leaf


@pytest.mark.parametrize(
    "inputs",
    [
        [window((10,), (1,), 0, 20)],
        [window((10,), (1,), 10, 20)],
        [window((2, 3), (6, 1), 4, 30)],
        [window((2,), (2,), 0, 9, requires_grad=True)],
        [window((2,), (1,), 3, 9, False, True)],
        [window((2,), (1,), 1, 9, source=Drawn("rand", 0.0, 2.0))],
        [view((3, 6), (6, 1), 6), window((4, 6), (6, 1))],
        [view((6, 4), (1, 6), 0), window((4, 6), (6, 1))],
        [view((2, 2), (6, 1), 7), window((4, 6), (6, 1))],
        [window((4, 6), (6, 1), requires_grad=True), view((3, 6), (6, 1), 6, True, True)],
        [window((4, 6), (6, 1), requires_grad=True), view((3, 6), (6, 1), 6, False, True)],
        [of_storage("x", (2, 3), (3, 1), 6), of_storage("y", (2, 3), (3, 1), 0)],
        [of_storage("x", (), (), 0), of_storage("y", (), (), 1)],
        [of_storage("x", (4,), (1,), 0), of_storage("y", (4,), (1,), 1)],
        [of_storage("x", (2, 3), (3, 1), 0), of_storage("y", (3, 2), (1, 3), 6)],
    ],
)
def test_the_lines_make_what_the_probe_made(inputs):
    lines, stored = lines_for(*inputs)
    assert not stored
    names = {"torch": torch}
    exec("\n".join(lines), names)
    for item, made in zip(inputs, make_inputs(inputs, StoredTensors(None), None), strict=True):
        assert facts(names[item.name]) == facts(made)


def test_views_of_one_shape_that_follow_one_another_are_rows_of_their_base():
    lines, _ = lines_for(of_storage("x", (2,), (1,), 0), of_storage("y", (2,), (1,), 2))
    assert lines[-3:] == ["base = torch.randn(2, 2)", "x = base[0]", "y = base[1]"]


def test_without_its_base_a_view_is_what_is_stored():
    lines, stored = lines_for(view((3, 6), (6, 1), 6, shared=True))
    assert stored and "tensors['x']" in lines[-1].replace('"', "'")
