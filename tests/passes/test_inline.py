"""Higher-order ops replaced by what they call, in real graphs: the same results, and no such op left."""

from dataclasses import replace

import pytest
import torch
from case_samples import small_case
from real_graphs import compiled_graphs, fresh, seeded

from minifier.reduction.passes.inlining import calls, has_branches, inlined
from minifier.torch_side.fx.graphs import build_graph, read_graph
from minifier.torch_side.fx.tensors import StoredTensors, TensorFile

X = seeded(4, 4)


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


def twice(x):
    for _ in range(2):
        x, total = region(x.cos(), x)
    return x * total


def negative(x):
    return torch.cond(x.sum() < -100, lambda a: a.sin() + x, lambda a: a.cos(), (x.exp(),)) * 2


def captured_case(function, x, folder):
    (captured,) = compiled_graphs(function, x)
    file = TensorFile()
    graph = read_graph(captured.module, file)
    return replace(small_case(), graph=graph), captured, StoredTensors(file.write(folder / "tensors.safetensors"))


@pytest.mark.parametrize(
    ("function", "branch", "ops"),
    [(twice, 0, 9), (negative, 1, 5), (lambda x: Cube.apply(x.sin())[0] + 1, 0, 7)],
    ids=["twice", "false", "autograd"],
)
def test_what_is_called_computes_the_same(tmp_path, function, branch, ops):
    x = X.clone().requires_grad_() if ops == 7 else X
    case, captured, tensors = captured_case(function, x, tmp_path)
    plain = inlined(case, calls(case.graph), branch)
    assert len(plain.graph.ops) == ops and not any("higher_order" in node.target for node in plain.graph.ops)
    assert not plain.graph.modules and has_branches(case.graph) is (function is negative)
    with torch.no_grad():
        expected = captured.module(*fresh(captured.inputs))
        found = build_graph(plain.graph, tensors)(*fresh(captured.inputs))
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
