"""Higher-order ops: replaced by what they call where the failure survives that; their bodies; what they hand on."""

import pytest
import torch
from captured import captured
from chains import NO_BACKEND
from fake_prober import raises, seen_failure, targets, when
from torch.utils.checkpoint import checkpoint

from minifier.data.case import Case, Script, State
from minifier.reduction.op_search import reduce_bodies, without_wrappers
from minifier.reduction.passes.operands import bodies
from minifier.search import Budget, Ending
from minifier.torch_side.interfaces import TORCH


def block(x):
    return torch.tanh(x.sin()).exp() * 2


def wrapped(x):
    return checkpoint(block, x.cos(), use_reentrant=False) + 1


def two_wrapped(x):
    return checkpoint(block, x, use_reentrant=False) + checkpoint(lambda x: x.relu() - 1, x, use_reentrant=False)


def nested(x):
    inner = lambda x: checkpoint(block, x, use_reentrant=False).abs()  # noqa: E731 - Dynamo names it after the line
    return checkpoint(inner, x, use_reentrant=False)


def branches(p, x):
    return torch.cond(p, lambda x: x.sin().exp() + x, lambda x: x.cos().tanh() - x, (x,))


def case_of(function, folder, *args, failing=raises()):  # noqa: B008 - it is frozen
    graph = captured(function, args, folder)
    failure = seen_failure(failing, ())
    return Case(graph.graph, graph.inputs, NO_BACKEND, failure, State(), Script("failing"), graph.tensors)


X = torch.ones(2, 3)
P = torch.tensor(True)


def inner_ops(case):
    """The targets of the ops in all bodies, inner bodies first."""
    return [node.short_target for _, body in bodies(case.graph) for node in body.ops]


def inside(*ops):
    return lambda case: set(ops) <= set(inner_ops(case))


WRAPPER = "tag_activation_checkpoint"


def test_one_of_two_wrappers_is_left(make_lab, folder):
    lab, prober = make_lab(case_of(two_wrapped, folder, X), when(inside("relu"), raises()))
    without_wrappers(lab)
    assert targets(lab.prepared.case).count(WRAPPER) == 1 and "relu" in inner_ops(lab.prepared.case)
    assert "tanh" in targets(lab.prepared.case)
    assert len(prober.asked) <= 3, "both at once, then each alone"


without_values = pytest.mark.xfail(TORCH < (2, 9), reason="bodies have no known values in torch 2.8", strict=True)
# Of the other branch one op stays: a body has to give back an op's result, and no input.
BODIES = [
    (wrapped, "tanh", ["tanh"], 4),
    (nested, "abs", ["abs"], 6),
    pytest.param(branches, "tanh", ["add", "tanh"], 6, marks=without_values),
]


@pytest.mark.parametrize(("function", "needed", "left", "probes"), BODIES)
def test_a_body_is_left_with_the_ops_that_are_needed(make_lab, folder, function, needed, left, probes):
    case = case_of(function, folder, *((P, X) if function is branches else (X,)))
    lab, prober = make_lab(case, when(inside(needed), raises()))
    made, ended = reduce_bodies(lab, case, Budget())
    assert ended is Ending.PROVED and inner_ops(made) == left and len(prober.asked) <= probes
    assert targets(made) == targets(case)


@pytest.mark.parametrize(
    ("budget", "interrupt_at", "how"),
    [(Budget(max_probes=2), None, Ending.MAX_PROBES), (Budget(), 1, Ending.INTERRUPTED)],
)
def test_a_budget_or_an_interrupt_ends_them(make_lab, folder, budget, interrupt_at, how):
    case = case_of(two_wrapped, folder, X)
    lab, prober = make_lab(case, when(inside("tanh", "relu"), raises()), interrupt_at=interrupt_at)
    made, ended = reduce_bodies(lab, case, budget)
    assert ended is how and len(prober.asked) <= 2 and {"tanh", "relu"} <= set(inner_ops(made))
