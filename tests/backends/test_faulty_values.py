"""The faults that raise nothing: what exactly is wrong with the result, and what is still right."""

import pytest
import torch


def ops_around_tanh(x):
    y = torch.tanh(x * 2)
    return y + 1, x - 1


def compiled_and_eager(backend, function=ops_around_tanh, x=None, **options):
    x = torch.linspace(-1, 1, 6).view(2, 3) if x is None else x
    return torch.compile(function, backend=backend, options=options)(x), function(x)


@pytest.mark.parametrize(("level", "factor"), [("dynamo", 1.02), ("forward", 3)])
def test_wrong_multiplies_the_op_and_nothing_else(level, factor):
    found, expected = compiled_and_eager("faulty_wrong", level=level, factor=factor)
    torch.testing.assert_close(found[0], (expected[0] - 1) * factor + 1)
    assert torch.equal(found[1], expected[1])


@pytest.mark.parametrize(
    ("op", "function", "wrong"),
    [
        ("argmax", lambda x: x.argmax(-1), lambda right: right + 1),
        ("isnan", torch.isnan, lambda right: ~right),
        ("max", lambda x: x.max(-1).values, lambda right: right * 1.02),
    ],
)
def test_wrong_knows_integers_bools_and_tuples(op, function, wrong):
    found, expected = compiled_and_eager("faulty_wrong", function, op=op)
    torch.testing.assert_close(found, wrong(expected))


def test_wrong_in_the_backward_graph_only():
    x = torch.ones(3, requires_grad=True)
    options = {"op": "tanh_backward", "level": "backward", "factor": 3.0}
    y = torch.compile(torch.tanh, backend="faulty_wrong", options=options)(x)
    y.sum().backward()
    torch.testing.assert_close(y, torch.tanh(x))
    torch.testing.assert_close(x.grad, 3 * (1 - torch.tanh(x.detach()) ** 2))


def test_nan_is_in_the_first_element_only():
    found, expected = compiled_and_eager("faulty_nan")
    assert found[0].isnan().flatten().tolist() == [True, False, False, False, False, False]
    assert torch.equal(found[0].flatten()[1:], expected[0].flatten()[1:])
    assert torch.equal(found[1], expected[1])


@pytest.mark.parametrize(("dtype", "wrong"), [(torch.float32, torch.float64), (torch.float64, torch.float32)])
def test_dtype_changes_the_outputs_computed_from_the_op(dtype, wrong):
    found, expected = compiled_and_eager("faulty_dtype", x=torch.ones(2, 3, dtype=dtype))
    assert found[0].dtype is wrong
    torch.testing.assert_close(found[0].to(dtype), expected[0])
    assert found[1].dtype is dtype


def test_stride_doubles_in_the_outputs_computed_from_the_op():
    found, expected = compiled_and_eager("faulty_stride")
    assert (found[0].stride(), expected[0].stride()) == ((6, 2), (3, 1))
    assert torch.equal(found[0], expected[0])
    assert found[1].stride() == expected[1].stride()


def test_an_op_returned_twice_is_wrong_in_both_places():
    found, _ = compiled_and_eager("faulty_dtype", lambda x: (x.tanh(), x.tanh() + 1, x.cos()))
    assert [output.dtype for output in found] == [torch.float64, torch.float64, torch.float32]


@pytest.mark.parametrize("backend", ["faulty_wrong", "faulty_nan", "faulty_dtype", "faulty_stride"])
def test_a_graph_without_the_op_is_right(backend):
    found, expected = compiled_and_eager(backend, torch.sin)
    assert torch.equal(found, expected)
    assert (found.dtype, found.stride()) == (expected.dtype, expected.stride())
