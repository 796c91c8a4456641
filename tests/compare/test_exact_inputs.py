"""A step of inputs that no op has rounded must come out as in eager; a step of rounded values need not."""

import math

import pytest
import torch
from case_text import graph_of
from compare_captures import captures

from minifier.torch_side.compare.runs import exactly_read

NUMERATORS, DENOMINATORS = torch.tensor([6.0, 1.0, 7.5, -3.0]), torch.tensor([0.2, 0.1, 2.5, 0.7])
EDGES = torch.tensor([300.0, 2.5, 3.0])


def below(x):
    return torch.nextafter(x, torch.tensor(-math.inf))


STEPS = {
    "a floor division": (lambda a, b: a // b, (NUMERATORS, DENOMINATORS), lambda a, b: (a / b).floor()),
    "by a function": (
        lambda a, b: torch.div(a[:, None], b, rounding_mode="floor"),
        (NUMERATORS, DENOMINATORS),
        lambda a, b: (a[:, None] / b).floor(),
    ),
    "a later op": (
        lambda a, b: torch.sin((a // b).clamp(0, 31)) * 3,
        (NUMERATORS, DENOMINATORS),
        lambda a, b: torch.sin((a / b).floor().clamp(0, 31)) * 3,
    ),
    "a floor": (lambda x: x.flip(0).floor(), (EDGES,), lambda x: below(x).flip(0).floor()),
    "a comparison": (lambda x, y: torch.ge(x, y), (EDGES, EDGES.clone()), lambda x, y: x > y),
}


@pytest.mark.parametrize("name", STEPS)
def test_a_step_of_inputs_is_no_rounding_error(name):
    function, inputs, wrong = STEPS[name]
    captured = captures(function, *inputs)[0]
    assert captured.compare(lambda *inputs: (wrong(*inputs),)).differences
    assert captured.compare(lambda *inputs: (function(*inputs),)).differences == ()


def test_a_step_of_rounded_values_still_is():
    """A product next to 1 is 1 where it is rounded otherwise, which is no bug."""
    function = lambda a, b: (a * b + 0.0).floor()  # noqa: E731
    a = torch.tensor([3.0, 5.0, 7.0, 49.0])
    captured = captures(function, a, 1 / a)[0]
    assert captured.compare(lambda a, b: (below(a * b).floor(),)).differences == ()


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("c = operator.floordiv(x, y)", "xy"),
        ("c = torch.ops.aten.floor_divide.default(x, y)", "xy"),
        ('c = torch.div(x, y, rounding_mode="trunc")', "xy"),
        ("c = torch.round(x, decimals=2)", "y"),
        ("v = operator.getitem(x, 0)\nc = torch.gt(v, y)", "xy"),
        ("v = torch.sin(x)\nc = torch.gt(v, y)", ""),
        ("c = torch.gt(x, y)\nd = torch.sin(y)", "x"),
        ("v = x.view(-1)\nw = x.mul_(y)\nc = torch.gt(v, y)", ""),
        ("c = torch.floor(x)\nd = torch.mul(c, y)", "x"),
        ("c = x.view(-1)\nd = torch.floor(y)\nreturn c,", "y"),
    ],
)
def test_inputs_that_only_steps_read(line, names):
    end = "" if "return" in line else "\nreturn c,"
    graph = graph_of(f"x: float32[2]\ny: float32[2]\n{line}{end}")
    assert [graph.placeholders[i].name for i in sorted(exactly_read(graph))] == list(names)
