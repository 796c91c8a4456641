"""What `minifier.check` leaves as it was: a module's tensors and the random generators; inputs are copied."""

import random

import pytest
import torch

from minifier.flow.embed.function import copied, state_kept


@pytest.mark.parametrize("of_method", [False, True])
def test_a_modules_parameters_buffers_and_gradients_are_restored(of_method):
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    model(torch.randn(4, 3)).sum().backward()
    model.register_buffer("seen", torch.zeros(1))
    seen, gradients = model.seen, [each.grad.clone() for each in model.parameters()]
    before = {name: value.clone() for name, value in model.state_dict().items()}
    with state_kept(model.forward if of_method else model):
        model(torch.randn(4, 3)).square().sum().backward()
        with torch.no_grad():
            model[0].weight.add_(1)
        model.seen = model.seen + 1
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items()) and model.seen is seen
    assert all(torch.equal(each.grad, grad) for each, grad in zip(model.parameters(), gradients, strict=True))


def test_an_untouched_tensor_keeps_its_version():
    model = torch.nn.Linear(3, 2)
    version = model.weight._version
    with state_kept(model):
        model(torch.ones(3))
    assert model.weight._version == version and model.weight.grad is None


def test_a_lazy_module_is_no_obstacle():
    lazy = torch.nn.LazyLinear(3)
    with state_kept(lazy):
        lazy(torch.randn(2, 5))
    assert lazy(torch.randn(2, 5)).shape == (2, 3)


def test_random_generators_are_restored():
    states = random.getstate(), torch.get_rng_state()
    with state_kept(len):
        random.random(), torch.rand(1)
    assert random.getstate() == states[0] and torch.equal(torch.get_rng_state(), states[1])


def test_inputs_are_copied_with_their_aliases():
    base = torch.arange(6.0)
    result = torch.ones(2, requires_grad=True) * 2
    inputs = [{"a": base, "b": base[2:]}, (result,), open]
    first, (second,), third = copied(inputs, {})
    first["b"].zero_(), second.detach().zero_()
    assert first["a"].tolist() == [0, 1, 0, 0, 0, 0]
    assert base.tolist() == [0, 1, 2, 3, 4, 5] and result.tolist() == [2, 2] and third is open
    assert second.requires_grad and second.is_leaf
