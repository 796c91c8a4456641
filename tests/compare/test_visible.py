"""What a script sees of a variable, and how two runs differ in it."""

import collections
import dataclasses
import enum

import numpy as np
import pytest
import torch

from minifier.torch_side.compare.visible import differences, is_noise, leaves_of


class Unit(enum.Enum):
    METRE = 1


@dataclasses.dataclass
class Box:
    content: object


def seen(value):
    return leaves_of({"it": value})


def changed(eager, compiled):
    return [each.expression for each in differences(seen(compiled), seen(eager))]


def layer(**attributes):
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(2, 2))
    vars(module[0]).update(attributes)
    return module


def with_gradient(value):
    module = layer()
    module[0].bias.grad = torch.full((2,), value)
    return module


VALUES = [
    (torch.ones(3), torch.tensor([1.0, 2.0, 1.0]), ["it"]),
    (torch.ones(3), torch.ones(3, dtype=torch.float64), ["it.dtype"]),
    (torch.ones(3), torch.ones(1, 3), ["it.shape"]),
    (torch.ones(3), torch.ones(3, requires_grad=True), ["it.requires_grad", "it.grad is None"]),
    (torch.ones(10_000), torch.ones(10_000).index_fill(0, torch.tensor([7]), 500.0), ["it"]),
    (torch.tensor([float("nan")]), torch.tensor([1.0]), ["it"]),
    (np.ones(3), np.zeros(3), ["torch.as_tensor(it)"]),
    (torch.ones(2), None, ["type(it).__name__", "it.dtype", "it.shape", "it.requires_grad"]),
    ([1, 2.0, "a"], [1, 2.5, "b"], ["it[1]", "it[2]"]),
    ([1], [1, 2], ["len(it)", "it[1]"]),
    ({"n": 1}, {"n": 2}, ["it['n']"]),
    ({1, 2}, {1, 3}, ["sorted(it)"]),
    (collections.deque([1, 2]), collections.deque([2, 1]), ["it[0]", "it[1]"]),
    (Box([Unit.METRE]), Box([None]), ["it.content[0]"]),
    (with_gradient(1.0), with_gradient(3.0), ["it[0].bias.grad"]),
    (layer(scale=1), layer(scale=2), ["it[0].scale"]),
]


@pytest.mark.parametrize(("eager", "compiled", "expressions"), VALUES)
def test_each_difference_has_the_expression_that_leads_to_it(eager, compiled, expressions):
    assert changed(eager, compiled) == expressions
    assert changed(eager, eager) == []


@pytest.mark.parametrize(
    ("eager", "compiled"),
    [
        (torch.ones(3), torch.full((3,), 1.0 + 1e-5)),
        (torch.ones(3, dtype=torch.bfloat16), torch.full((3,), 1.02, dtype=torch.bfloat16)),
        (0.1 + 0.2, 0.3),
        (object(), object()),
        (torch.full((100, 100), float("-inf")).triu(1), torch.full((100, 100), float("-inf")).triu(1)),
        ({"x": torch.ones(3), "error": 0.0}, {"x": torch.ones(3), "error": 1.2e-7}),  # a difference of two results
        (lambda: 1, lambda: 2),
    ],
)
def test_rounding_and_what_has_no_content_is_no_difference(eager, compiled):
    assert changed(eager, compiled) == []


class Awkward(collections.UserDict):
    def __len__(self):
        raise RuntimeError("not now")


@pytest.mark.parametrize("value", [Awkward(), torch.nn.LazyLinear(2), torch.ones(2).to_sparse()])
def test_a_value_that_cannot_be_looked_at_does_no_harm(value):
    leaves = leaves_of({"it": value, "other": 1})
    assert leaves["other"].text == "1"


def test_an_object_that_holds_itself_has_an_end():
    ring = [1]
    ring.append(ring)
    assert list(seen(ring)) == ["len(it)", "it[0]"]


def test_a_difference_counts_only_beyond_what_another_rounding_changes():
    eager, compiled = seen(torch.tensor([1.0])), seen(torch.tensor([1.1]))
    (unlike,) = differences(compiled, eager)
    assert not is_noise(unlike, eager, seen(torch.tensor([1.0 + 1e-6])))
    assert is_noise(unlike, eager, seen(torch.tensor([1.05])))
    assert is_noise(unlike, eager, {})


def test_the_numbers_that_differ_most_are_told():
    (far,) = differences(seen(torch.arange(9.0).index_fill(0, torch.tensor([6]), 2.0)), seen(torch.arange(9.0)))
    assert (far.compiled, far.eager) == ("[..., 2, 7, 8]", "[..., 6, 7, 8]")
