"""Graphs as torch.compile hands them to a backend, one for each thing that a graph can hold."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import oddops
import torch
import torch.nn.functional as F


@dataclass(frozen=True)
class Captured:
    """A graph before any backend touched it, and the inputs of its first call."""

    module: torch.fx.GraphModule
    inputs: tuple[Any, ...]


def compiled_graphs(function: Callable[..., Any], *args: Any, **options: Any) -> list[Captured]:
    """Every graph that Dynamo makes of a call."""
    found: list[Captured] = []

    def backend(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        kept = copy.deepcopy(gm)
        for old, new in zip(gm.graph.nodes, kept.graph.nodes, strict=True):
            new.meta = dict(old.meta)

        def run(*inputs: Any) -> Any:
            found.append(Captured(kept, tuple(fresh(inputs))))
            return gm.forward(*inputs)

        return run

    torch._dynamo.reset()
    torch.compile(function, backend=backend, **options)(*args)
    torch._dynamo.reset()
    return found


def fresh(values: Sequence[Any]) -> list[Any]:
    """Copies that share nothing with the originals."""
    return [v.detach().clone().requires_grad_(v.requires_grad) if isinstance(v, torch.Tensor) else v for v in values]


def seeded(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(len(shape) + sum(shape))).to(dtype)


class Leaf(torch.fx.Tracer):
    def is_leaf_module(self, m, name):
        return not isinstance(m, torch.nn.Sequential)


def traced_modules() -> list[Captured]:
    """Dynamo no longer makes call_module nodes; graphs that were traced otherwise still have them."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 8, bias=False),
        torch.nn.LayerNorm(8),
        torch.nn.Sequential(torch.nn.GELU(approximate="tanh"), torch.nn.Dropout(0.25).eval()),
        torch.nn.BatchNorm1d(8).eval(),
    )
    return [Captured(torch.fx.GraphModule(model, Leaf().trace(model)), (seeded(3, 4),))]


def held_tensor() -> list[Captured]:
    """A graph that holds tensors of its own: a plain one, one with gaps, one of a type few files know."""
    root = torch.nn.Module()
    root.inner = torch.nn.Module()
    root.inner.register_buffer("scale", seeded(4, 3).t())
    root.register_buffer("turn", torch.tensor([1 + 2j, 3 - 1j, 0.5j]))
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    scale, turn = graph.get_attr("inner.scale"), graph.get_attr("turn")
    for node in (scale, turn):
        node.meta["example_value"] = root.inner.scale if node is scale else root.turn
    x.meta["example_value"] = seeded(3)
    scaled = graph.call_function(torch.mul, (scale, 2))
    made = graph.call_function(torch.matmul, (x, scaled))
    graph.output((made, graph.call_function(torch.abs, (turn,))))
    return [Captured(torch.fx.GraphModule(root, graph), (seeded(3),))]


def made(function: Callable[..., Any], *args: Any, **options: Any) -> Callable[[], list[Captured]]:
    return functools.cache(lambda: compiled_graphs(function, *args, **options))


def kwargs(x):
    y = F.layer_norm(x, (3,), weight=None, eps=1e-3) + torch.clamp(x, min=-0.5, max=0.5)
    return torch.sum(y, dim=(0, 1), keepdim=True)


def several_results(x):
    values, places = torch.topk(x, 2, dim=-1)
    first, second = x.chunk(2, dim=0)
    low, high = torch.aminmax(x)
    return values * places, first - second, low + high


def in_place(x):
    y = x.clone()
    y += 1
    y.mul_(2)
    y -= x
    return F.relu_(y), y


def writes_items(x):
    y = torch.zeros_like(x)
    y[0] = x[1]
    y[..., 1:] = 5.0
    y[x > 0] = -1
    return y


def into_out(x):
    out = torch.empty(2, 3)
    torch.add(x, 1, out=out)
    return out * 2


def subscripts(x):
    return x[0], x[:, 1], x[..., -1], x[None, 1:, ::2], x[[0, 1], [1, 2]], x[(0, 1), 2], x[1:2, None, ...]


def types_and_places(x):
    y = x.to(torch.float64).to("cpu").to(dtype=torch.bfloat16, memory_format=torch.preserve_format)
    z = torch.zeros(2, 3, dtype=torch.int32, device=torch.device("cpu")) + torch.arange(3)
    return y.float(), z.type_as(x), torch.full((2,), math.inf), torch.full((1,), -math.inf).nan_to_num(0.0, 1e5)


def operators(x, y):
    a = (x + y) * (x - y) / (y * y + 1) // 1 % 3
    b = -(x**2) @ y.t()
    c = (x > 0) & ~(y < 0) | (x == y) ^ (x != y)
    return a, b, c, (x >= y).int() << 2, 1 - x, 2 / (abs(y) + 1)


def nested_containers(x, y):
    return (
        torch.einsum("ij,kj->ik", x, y),
        torch.cat([torch.stack((x, y)), x[None]]),
        torch.meshgrid([x[0], y[0]], indexing="ij"),
    )


def attention(q, k, v):
    mask = torch.ones(4, 4, dtype=torch.bool).tril()
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=0.25)


def aten_ops(x):
    y = torch.ops.aten.add.Tensor(x, 2, alpha=3)
    return torch.ops.aten.var_mean.correction(y, [0], correction=0, keepdim=True)[0], torch.ops.aten.mul(y, x)


def custom_ops(x):
    return oddops.twice(x, 0.5) + oddops.smooth(x, 2).sum() + oddops.Outer.halve(x)


def autocast_region(x, w):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ w
        with torch.autocast("cpu", enabled=False):
            z = x @ w
    return y.float() + 1, z


def no_grad_region(x, w):
    y = x * w
    with torch.no_grad():
        z = y.sum() * 2
    return y * z


def methods(x):
    return x.view(3, 2).t().reshape(-1)[None].expand(2, 6).masked_fill(x.view(1, 6) > 0, -2.5)


def dynamic_sizes(x):
    return x.view(x.shape[0] * x.shape[1], -1) * x.shape[0] + torch.arange(x.shape[1], device=x.device).sum()


def complex_numbers(x):
    return torch.view_as_real(torch.fft.rfft(x) * (1.5 - 0.5j))


def rounds_to_eighths(x):
    return x.to(torch.float8_e4m3fn).float(), x.half() * 2


def views(x):
    y = x * 1
    row = y[0]
    row.add_(10)
    return y, row, y.t()[1:]


def names_of_builtins(input, max):
    return torch.abs(input) + torch.sum(max, dim=0) + torch.max(input)


Case = Callable[[], list[Captured]]  # captured once in a process: who changes a graph or an input copies it first
X, Y = seeded(2, 3), seeded(4, 3)
Q = seeded(1, 2, 4, 8)
GRAPHS: dict[str, Case] = {
    "kwargs": made(kwargs, X),
    "several results": made(several_results, X),
    "in place": made(in_place, X),
    "writes items": made(writes_items, X),
    "into out": made(into_out, X),
    "subscripts": made(subscripts, X),
    "types and places": made(types_and_places, X),
    "operators": made(operators, X, X.flip(0)),
    "nested containers": made(nested_containers, X, X + 1),
    "attention": made(attention, Q, Q * 2, Q - 1),
    "aten ops": made(aten_ops, X),
    "custom ops": made(custom_ops, seeded(3, 6)),
    "autocast region": made(autocast_region, X, seeded(3, 4)),
    "no_grad region": made(no_grad_region, X.clone().requires_grad_(), X),
    "methods": made(methods, X),
    "dynamic sizes": made(dynamic_sizes, Y, dynamic=True),
    "complex numbers": made(complex_numbers, seeded(4)),
    "small floats": made(rounds_to_eighths, X),
    "views": made(views, X),
    "names of builtins": made(names_of_builtins, X, Y.t()[:3, :3]),
    "a module's parameters": made(
        torch.nn.Sequential(torch.nn.Conv1d(2, 3, 2, padding="same"), torch.nn.Tanh()), seeded(1, 2, 5)
    ),
    "modules": traced_modules,
    "held tensors": held_tensor,
}
