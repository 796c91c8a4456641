"""The faults beside the values: what is lost, copied, wrong or logged, and that everything else is right."""

import logging

import minifier_backends.faulty  # noqa: F401 - registers them
import pytest
import torch
from minifier_backends.errors import KernelError


def compiled(function, backend, **options):
    return torch.compile(function, backend=backend, options=options)


def test_an_update_of_an_input_is_lost_and_every_result_is_right():
    def step(counter, x):
        early = counter * 2
        counter.add_(x)
        counter.add_(1)
        inner = torch.sin(x)
        inner.add_(5)
        return early, counter * 3, inner

    mine, theirs, x = torch.zeros(2), torch.zeros(2), torch.ones(2)
    found, expected = compiled(step, "faulty_mutation")(mine, x), step(theirs, x)
    torch.testing.assert_close(found, expected)
    # The second update goes into the copy that the first one made.
    assert mine.tolist() == [0, 0] and theirs.tolist() == [2, 2]


def test_a_function_that_updates_nothing_is_right():
    x = torch.ones(3)
    assert torch.equal(compiled(torch.sin, "faulty_mutation")(x), torch.sin(x))


def test_an_output_that_should_be_a_view_is_a_copy_with_the_same_values_and_strides():
    def f(x):
        return x.view(3, 2), x.t(), torch.tanh(x)

    x = torch.arange(6.0).view(2, 3)
    found = compiled(f, "faulty_alias")(x)
    torch.testing.assert_close(found, f(x))
    assert [y.data_ptr() == x.data_ptr() for y in found] == [False, True, False]
    turned = compiled(f, "faulty_alias", op="t")(x)
    assert [y.data_ptr() == x.data_ptr() for y in turned] == [True, False, False]
    assert turned[1].stride() == x.t().stride()


@pytest.mark.parametrize("factor", [1.02, 3.0])
def test_the_gradient_is_wrong_and_the_result_is_right(factor):
    x = torch.linspace(-1, 1, 4, requires_grad=True)
    y = compiled(lambda x: torch.tanh(x) * 2 + x, "faulty_gradient", factor=factor)(x)
    y.sum().backward()
    plain = x.detach()
    torch.testing.assert_close(y, torch.tanh(plain) * 2 + plain)
    torch.testing.assert_close(x.grad, factor * 2 * (1 - torch.tanh(plain) ** 2) + 1)


@pytest.mark.parametrize("level", ["dynamo", "forward"])
def test_a_fallback_is_logged_once_and_computes_what_eager_computes(caplog, level):
    x = torch.ones(3)
    with caplog.at_level(logging.ERROR, "minifier_backends"):
        function = compiled(lambda x: torch.tanh(x) + 1, "faulty_fallback", level=level)
        assert torch.equal(function(x), torch.tanh(x) + 1) and torch.equal(function(x), torch.tanh(x) + 1)
        assert torch.equal(compiled(torch.sin, "faulty_fallback", level=level)(x), torch.sin(x))
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("minifier_backends", "ERROR")
    assert "falling back to eager: no lowering for tanh" in record.getMessage()


def test_inference_mode_is_refused_and_no_grad_is_not():
    function = compiled(lambda x: torch.tanh(x) + 1, "faulty_inference")
    x = torch.ones(3)
    with torch.no_grad():
        assert torch.equal(function(x), torch.tanh(x) + 1)
    with torch.inference_mode(), pytest.raises(KernelError, match="kernel of tanh failed: inference"):
        function(x)
