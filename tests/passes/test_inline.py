"""Higher-order ops replaced by what they call, in real graphs: the same results, and no such op left."""

from dataclasses import replace

import pytest
import torch
from case_samples import small_case
from real_graphs import compiled_graphs, fresh, seeded
from torch._higher_order_ops.while_loop import while_loop
from torch.utils.checkpoint import checkpoint

from minifier.reduction.passes.composite import calls, has_branches, holds_calls, inlined
from minifier.torch_side.fx.graphs import build_graph, read_graph
from minifier.torch_side.fx.tensors import StoredTensors, TensorFile

X = seeded(4, 4)


def block(x):
    return torch.tanh(x.sin()) * 2


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.tanh(x) ** 3, x.cos()

    @staticmethod
    def backward(ctx, grad, other):
        (x,) = ctx.saved_tensors
        return grad * x + other


@torch.compiler.nested_compile_region
def region(x, w):
    x = x @ w
    return x.add_(1), x.sum()


def wrapped(x):
    return checkpoint(block, x.cos(), use_reentrant=False) + 1


def twice(x):
    for _ in range(2):
        x, total = region(x.cos(), x)
    return x * total


def inside_each_other(x):
    return checkpoint(lambda a: checkpoint(block, a, use_reentrant=False) + a, x.cos(), use_reentrant=False)


def positive(x):
    return torch.cond(x.sum() > -100, lambda a: a.sin() + x, lambda a: a.cos(), (x.exp(),)) * 2


def negative(x):
    return torch.cond(x.sum() < -100, lambda a: a.sin() + x, lambda a: a.cos(), (x.exp(),)) * 2


def once(x):
    return while_loop(lambda i, a: i < 1, lambda i, a: (i + 1, a.sin()), (torch.zeros((), dtype=torch.int64), x))[1]


def captured_case(function, x, folder):
    (captured,) = compiled_graphs(function, x)
    file = TensorFile()
    graph = read_graph(captured.module, file)
    return replace(small_case(), graph=graph), captured, StoredTensors(file.write(folder / "tensors.safetensors"))


@pytest.mark.parametrize(
    ("function", "branch", "ops"),
    [
        (wrapped, 0, 5),
        (twice, 0, 9),
        (inside_each_other, 0, 5),
        (positive, 0, 6),
        (negative, 1, 5),
        (once, 0, 3),
        (lambda x: Cube.apply(x.sin())[0] + 1, 0, 7),
    ],
    ids=["wrapped", "twice", "inside each other", "true", "false", "once", "autograd"],
)
def test_what_is_called_computes_the_same(tmp_path, function, branch, ops):
    x = X.clone().requires_grad_() if ops == 7 else X
    case, captured, tensors = captured_case(function, x, tmp_path)
    plain = inlined(case, calls(case.graph), branch)
    assert len(plain.graph.ops) == ops and not any("higher_order" in node.target for node in plain.graph.ops)
    assert not plain.graph.modules and has_branches(case.graph) is (function in (positive, negative))
    with torch.no_grad():
        expected = captured.module(*fresh(captured.inputs))
        found = build_graph(plain.graph, tensors)(*fresh(captured.inputs))
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_only_the_outer_one(tmp_path):
    case, captured, tensors = captured_case(inside_each_other, X, tmp_path)
    (name,) = calls(case.graph)
    assert holds_calls(case.graph, name)
    plain = inlined(case, (name,), deep=False)
    (inner,) = calls(plain.graph)
    assert inner != name and not holds_calls(plain.graph, inner) and len(plain.graph.modules) == 1
    with torch.no_grad():
        found = build_graph(plain.graph, tensors)(*fresh(captured.inputs))
        torch.testing.assert_close(found, captured.module(*fresh(captured.inputs)), rtol=0, atol=0)
