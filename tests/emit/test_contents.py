"""What a graph can hold: in scripts whose backend refuses it, captured, reduced, written down, and run alone."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from layers import sampled
from minified_scripts import minified
from vocabulary import source_of

pytestmark = pytest.mark.timeout(150)

BACKEND = """
import torch
import torch.nn.functional as F


def strict(gm, inputs):
    graphs = [module.graph for module in gm.modules() if isinstance(module, torch.fx.GraphModule)]
    names = [f"{node.target} {getattr(node.target, '__name__', '')}" for graph in graphs for node in graph.nodes]
    if all(any(word in name for name in names) for word in WORDS):
        raise ValueError("unknown operator in graph")
    return gm.forward


"""


@dataclass(frozen=True)
class Content:
    """A script after its backend `strict`, which refuses a graph with ops of these names; names that its repro has, and
    has not."""

    words: str
    script: str
    names: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    ops: int = 1


TANH = ("torch.tanh(x)",)
CHECKPOINT = """
from torch.utils.checkpoint import checkpoint

def block(x):
    return torch.tanh(x.sin()) * 2

def fn(x):
    return checkpoint(block, torch.relu(x), use_reentrant=False).exp().sum()

torch.compile(fn, backend=strict)(torch.randn(4, requires_grad=True)).backward()
"""
REGION = """
@torch.compiler.nested_compile_region
def block(x, w):
    return torch.tanh(x @ w) * 2

def fn(x, w):
    for _ in range(3):
        x = block(x, w)
    return x.exp().sum()

torch.compile(fn, backend=strict)(torch.randn(4, 3), torch.randn(3, 3))
"""
FUNCTION = """
class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x, scale)
        return torch.tanh(x) * scale ** 3

    @staticmethod
    def backward(ctx, grad):
        x, scale = ctx.saved_tensors
        return grad * 3 * x, (grad * scale).sum()

def fn(x, scale):
    x = torch.relu(x.sin()) + 1
    return Cube.apply(x, scale).exp().sum()

torch.compile(fn, backend=strict)(torch.randn(4, requires_grad=True), torch.randn(())).backward()
"""
COND = """
def fn(x, w):
    y = torch.relu(x.sin()) + 1
    x = torch.cond(x.sum() > 0, lambda a: torch.tanh(a) + y * w, lambda a: a.cos() * 2, (x,))
    return x.exp().sum()

torch.compile(fn, backend=strict)(torch.randn(4), torch.randn(4))
"""
WHILE = """
def fn(x):
    x = torch.relu(x.sin()) + 1
    n = torch.zeros((), dtype=torch.int64)
    n, x = torch.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, torch.tanh(a) * 2), (n, x))
    return x.exp().sum()

torch.compile(fn, backend=strict)(torch.randn(4))
"""
AUTOCAST = """
def fn(x, w):
    x = torch.relu(x.sin()) + 1
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = F.linear(x, w)
    return y.float().exp().sum()

torch.compile(fn, backend=strict)(torch.randn(4, 3), torch.randn(3, 3))
"""
DISCOUNT = """
@torch.library.custom_op("shop::discount", mutates_args=())
def discount(price: torch.Tensor, rate: float) -> torch.Tensor:
    return price * (1 - rate)

@discount.register_fake
def _(price, rate):
    return torch.empty_like(price)
"""

CONTENTS = {
    "an op inside a checkpoint": Content("tanh", CHECKPOINT, TANH, ("checkpoint",)),
    "a checkpoint": Content(
        "checkpoint",
        CHECKPOINT,
        ("checkpoint(", "use_reentrant=False"),
    ),
    "an op inside a nested region": Content("tanh", REGION, TANH, ("nested_compile_region",)),
    "an op inside an autograd function": Content("tanh", FUNCTION, TANH, ("class",)),
    "an autograd function": Content(
        "autograd_function",
        FUNCTION,
        ("torch.autograd.Function", "save_for_backward", ".apply("),
    ),
    "an op inside a branch": Content("tanh", COND, TANH, ("cond",)),
    "branches that read what is around them": Content("cond", COND, ("torch.cond(",), ("lambda",)),
    "a loop": Content("while_loop", WHILE, ("torch.while_loop(",), ("higher_order",)),
    "a scan": Content(
        "scan",
        """
        from torch._higher_order_ops.scan import scan

        def step(carry, x):
            carry = torch.tanh(carry + x)
            return carry, carry * 2

        def fn(x):
            last, each = scan(step, torch.zeros(3), torch.relu(x.sin()))
            return each.exp().sum() + last.sum()

        torch.compile(fn, backend=strict)(torch.randn(4, 3))
        """,
        ("scan(",),
    ),
    "a map": Content(
        "map",
        """
        from torch._higher_order_ops.map import map as torch_map

        def fn(x, w):
            y = torch_map(lambda row, w: torch.tanh(row) * w, torch.relu(x.sin()), w)
            return y.exp().sum()

        torch.compile(fn, backend=strict)(torch.randn(4, 3), torch.randn(3))
        """,
        ("import map", "map("),
    ),
    "an op under vmap": Content(
        "tanh",
        """
        def fn(x, w):
            return torch.vmap(lambda row: torch.tanh(row @ w))(torch.relu(x.sin())).exp().sum()

        torch.compile(fn, backend=strict)(torch.randn(4, 3), torch.randn(3))
        """,
        TANH,
        ("vmap",),
    ),
    "an op that does not need its autocast": Content("linear", AUTOCAST, ("functional.linear(",), ("autocast",)),
    "an autocast region": Content("_enter_autocast linear", AUTOCAST, ("with torch.autocast",), ops=3),
    "a region without grad": Content(
        "_set_grad_enabled tanh",
        """
        def fn(x, w):
            with torch.no_grad():
                y = torch.tanh(x @ w)
            return (y * x.sum()).exp().sum()

        x = torch.randn(4, 3, requires_grad=True)
        torch.compile(fn, backend=strict)(x, torch.randn(3, 3)).backward()
        """,
        ("with torch.no_grad",),
        ops=3,
    ),
    "a region in inference mode": Content(
        "_enter_inference_mode tanh",
        """
        def fn(x):
            with torch.inference_mode():
                y = torch.tanh(torch.relu(x.sin()) + 1)
            return y.exp().sum()

        torch.compile(fn, backend=strict)(torch.randn(4))
        """,
        ("with torch.inference_mode",),
        ("torch.autograd.grad_mode",),
        ops=3,
    ),
    "a custom op with a gradient": Content(
        "discount",
        DISCOUNT
        + """
def backward(ctx, grad):
    return grad * (1 - ctx.rate), None

def setup_context(ctx, inputs, output):
    ctx.rate = inputs[1]

discount.register_autograd(backward, setup_context=setup_context)

def fn(x):
    return discount(torch.relu(x.sin()), 0.25).exp().sum()

torch.compile(fn, backend=strict)(torch.randn(4, requires_grad=True)).backward()
""",
        ("register_autograd(", "torch.ops.shop.discount"),
    ),
    "a custom op that changes its argument": Content(
        "bump",
        """
        @torch.library.custom_op("shop::bump", mutates_args=("x",))
        def bump(x: torch.Tensor, by: float) -> None:
            x.add_(by)

        def fn(x):
            x = torch.relu(x.sin()) + 1
            bump(x, 2.0)
            return x.exp().sum()

        torch.compile(fn, backend=strict)(torch.randn(4))
        """,
        ("shop::bump", "mutates_args"),
    ),
    "buffers that change, and tied weights": Content(
        "tanh",
        """
        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("scale", torch.arange(4.0))
                self.first = torch.nn.Linear(4, 4)
                self.second = torch.nn.Linear(4, 4)
                self.second.weight = self.first.weight

            def forward(self, x):
                self.scale.add_(1)
                return torch.tanh(self.second(self.first(x)) * self.scale).exp()

        torch.compile(Net(), backend=strict)(torch.randn(2, 4)).sum().backward()
        """,
        TANH,
        ("class Net",),
    ),
    "complex numbers, conjugated": Content(
        "tanh",
        """
        def fn(x):
            return torch.tanh(x * (1 + 2j)).abs().exp()

        torch.compile(fn, backend=strict)(torch.randn(4, 2, dtype=torch.complex64).conj())
        """,
        ("torch.tanh(", "complex64"),
    ),
    "eight bits": Content(
        "to",
        """
        def fn(x):
            return (x.to(torch.float32) * 2).exp()

        torch.compile(fn, backend=strict)(torch.randn(4).to(torch.float8_e4m3fn))
        """,
        ("float8_e4m3fn", "x.to(torch.float32)"),
    ),
    "no dimension, and no elements": Content(
        "cat",
        """
        def fn(x, e):
            return torch.cat([torch.relu(x).reshape(1, 1), e], 1)

        torch.compile(fn, backend=strict)(torch.tensor(2.0), torch.empty(1, 0))
        """,
        ("(1, 0)", "torch.cat("),
    ),
    "indices of every kind": Content(
        "setitem",
        """
        def fn(x, m, i):
            x = torch.relu(x)
            x[..., None, 1:3][m][:, i, ::2] = 3
            return x.exp()

        mask = torch.tensor([True, False, True, True])
        torch.compile(fn, backend=strict)(torch.randn(4, 5), mask, torch.tensor([0, 0]))
        """,
        ("[:, ", ", ::2] = 3"),
    ),
    "devices, dtypes, formats and strings": Content(
        "to",
        """
        def fn(x):
            x = torch.relu(x) + torch.full((1, 4, 2, 2), 2.0, device=torch.device("cpu"))
            x = torch.einsum("abcd,abcd->abcd", x, x)
            return x.to("cpu", torch.float64, memory_format=torch.channels_last).exp()

        torch.compile(fn, backend=strict)(torch.randn(1, 4, 2, 2))
        """,
        ("torch.float64", "memory_format=torch.channels_last"),
    ),
    "tensors of the script's own": Content(
        "tanh",
        """
        TABLE = torch.randn(4)

        def fn(x):
            return torch.tanh(torch.relu(x) + TABLE) * torch.tensor([1.0, 2.0, 3.0, 4.0])

        torch.compile(fn, backend=strict)(torch.randn(4))
        """,
        TANH,
        ("TABLE",),
    ),
    "sizes that values decide": Content(
        "tanh",
        """
        import torch._dynamo
        torch._dynamo.config.capture_scalar_outputs = True
        torch._dynamo.config.capture_dynamic_output_shape_ops = True

        def fn(x, n):
            k = n.item()
            torch._check(k >= 1)
            return torch.tanh(torch.zeros(k)).sum() + x.nonzero().sum()

        torch.compile(fn, backend=strict)(torch.randn(4), torch.tensor(3))
        """,
        TANH,
    ),
}


@pytest.mark.parametrize("name", sampled(CONTENTS, 9))
def test_a_graph_that_holds(processes, tmp_path, name):
    content = CONTENTS[name]
    head = source_of(BACKEND).replace("WORDS", repr(content.words.split()))
    text = minified(tmp_path, f"{head}\n\n{source_of(content.script)}", content.ops, plain=False)
    assert all(word in text for word in content.names), text
    assert not any(word in text for word in content.without), text


def test_an_op_that_fails_at_run_time_inside_a_transform(minify):
    """The transform is left open by what is raised."""
    done = minify(
        """
        import torch
        import minifier_backends.faulty

        def fn(x):
            return torch.func.grad(lambda t: t.sin().tanh().sum())(x * 2).cos()

        torch.compile(fn, backend="faulty_raise", options={"stage": "run"})(torch.randn(3, 4))
        """
    )
    assert (done.code, done.ops[1], done.result["level"]) == (0, 1, "dynamo"), done.stderr
    assert "tanh" in done.repro


@pytest.mark.usefixtures("soak")
def test_an_op_that_is_wrong_for_each_row_of_a_batch(minify):
    """What it is given is known only inside the transform, where a value is wrapped."""
    done = minify(
        """
        import torch
        import minifier_backends.faulty

        def fn(x, w):
            x = torch.relu(x.sin()) + 1
            y = torch.vmap(lambda row: torch.tanh(row * w))(x)
            return y.exp().sum()

        options = {"op": "tanh", "factor": 1.5}
        torch.compile(fn, backend="faulty_wrong", options=options)(torch.randn(4, 3), torch.randn(3))
        """
    )
    assert (done.code, done.ops) == (0, (12, 1)), done.stderr
    assert done.result["failure"]["kind"] == "wrong-result" and "functorch" not in done.repro
