"""Backends with mistakes that people make: nothing in them fails on command."""

import pytest
from layers import sampled

pytestmark = pytest.mark.timeout(400)

DROPS_ALPHA = """
    import functools

    import torch


    def lower(gm, inputs, *, fuse=True):
        for node in gm.graph.nodes:
            if fuse and node.op == "call_function" and node.target in (torch.add, torch.sub) and len(node.args) == 2:
                node.kwargs = {}  # alpha goes with the rest
        gm.recompile()
        return gm


    fast = functools.partial(lower, fuse=True)
"""
UNDER_INFERENCE_MODE = """
    import torch
    from backend import fast


    def mixed(x, y):
        gate = torch.sigmoid(x * y).mean(dim=-1, keepdim=True)
        both = torch.add(torch.relu(x), torch.tanh(y), alpha=0.5)
        return torch.sub(both, gate)


    with torch.inference_mode():
        torch.compile(mixed, backend=fast)(torch.randn(3, 8), torch.randn(3, 8))
"""
LOSES_A_CHANGE = """
    def functional(gm, inputs):
        for node in gm.graph.nodes:
            if node.op == "call_method" and node.target in ("add_", "mul_"):
                node.target = node.target.removesuffix("_")
        gm.recompile()
        return gm.forward
"""
CACHE_IN_INFERENCE_MODE = """
    import torch
    from backend import functional


    def step(x, cache):
        hidden = torch.tanh(x) * 2
        cache.add_(hidden.mean(0))
        return torch.softmax(hidden + cache, -1)


    with torch.inference_mode():
        torch.compile(step, backend=functional)(torch.randn(3, 4), torch.zeros(4))
"""
KEYED_BY_CODE = """
    import torch

    ENGINES = {}


    def build(gm):
        for node in list(gm.graph.nodes):
            if node.op == "call_method" and node.target == "mean":
                count = node.args[0].meta["example_value"].shape[node.kwargs["dim"]]
                with gm.graph.inserting_before(node):
                    total = gm.graph.call_method("sum", node.args, node.kwargs)
                    mean = gm.graph.call_function(torch.mul, (total, 1.0 / count))
                node.replace_all_uses_with(mean)
                gm.graph.erase_node(node)
        gm.recompile()
        return gm.forward


    def cached(gm, inputs):
        key = gm.code  # the same for other sizes
        if key not in ENGINES:
            ENGINES[key] = build(gm)
        return ENGINES[key]
"""
SEVERAL_LENGTHS = """
    import torch
    from backend import cached


    class Encoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.norm = torch.nn.Embedding(50, 8), torch.nn.LayerNorm(8)
            self.mix, self.head = torch.nn.Linear(8, 8), torch.nn.Linear(8, 3)

        def forward(self, tokens):
            hidden = self.norm(self.embed(tokens))
            hidden = hidden + torch.tanh(self.mix(hidden))
            return self.head(hidden.mean(dim=1)).softmax(-1)


    encode = torch.compile(Encoder().eval(), backend=cached, dynamic=False)
    with torch.no_grad():
        for length in (8, 12, 20):
            encode(torch.randint(0, 50, (2, length)))
"""
DROPS_NONES = """
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd


    def forward(gm, inputs):
        return make_boxed_func(gm.forward)


    def backward(gm, inputs):
        returned = list(gm.graph.output_node().args[0])
        live = [place for place, node in enumerate(returned) if node is not None]

        def run(*args):
            results = gm.forward(*args)
            return [results[place] for place in live] + [None] * (len(returned) - len(live))

        return make_boxed_func(run)


    trains = aot_autograd(fw_compiler=forward, bw_compiler=backward)
"""
FROZEN_STEM = """
    import torch
    from backend import trains


    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.stem, self.norm, self.head = torch.nn.Linear(6, 4), torch.nn.LayerNorm(4), torch.nn.Linear(4, 3)
            self.stem.requires_grad_(False)

        def forward(self, x, y):
            hidden = torch.relu(self.norm(torch.tanh(self.stem(x))))
            return torch.nn.functional.cross_entropy(self.head(hidden), y)


    torch.compile(Net(), backend=trains)(torch.randn(5, 6), torch.tensor([0, 1, 2, 0, 1])).backward()
"""
REGISTERED_BY_THE_SCRIPT = """
    import torch
    from backend import fast


    torch._dynamo.register_backend(fast, name="fast")
    torch.compile(lambda x: torch.add(x.tanh(), x, alpha=2.0).relu(), backend="fast")(torch.randn(3))
"""
AOT = """
    import torch
    from torch._dynamo.backends.common import aot_autograd


    def lower(gm, inputs):
        for node in gm.graph.nodes:
            node.kwargs = {}
        gm.recompile()
        return gm.forward


    fast = aot_autograd(fw_compiler=lower)
"""
FLOORS = """
    def floors(gm, inputs):
        for node in gm.graph.nodes:
            if node.kwargs.get("rounding_mode") == "trunc":
                node.kwargs = {**node.kwargs, "rounding_mode": "floor"}
        gm.recompile()
        return gm
"""
BUCKETS = """
    import torch
    from backend import floors

    torch.manual_seed(0)
    torch.compile(lambda x: torch.div(x + 1, 3, rounding_mode="trunc").clamp(-9, 9), backend=floors)(
        torch.randint(-11, 12, (40,))
    )
"""
MERGES_DRAWS = """
    def merges(gm, inputs):
        seen = {}
        for node in list(gm.graph.nodes):
            if node.op == "call_function":
                key = str((node.target, node.args, node.kwargs))
                if key in seen:
                    node.replace_all_uses_with(seen[key])
                    gm.graph.erase_node(node)
                else:
                    seen[key] = node
        gm.recompile()
        return gm
"""
TWO_VIEWS = """
    import torch
    import torch.nn.functional as F
    from backend import merges


    @torch.compile(backend=merges)
    def views(x, w):
        one, other = F.dropout(x, 0.5, training=True) @ w, F.dropout(x, 0.5, training=True) @ w
        return F.cosine_similarity(one, other, dim=-1)


    views(torch.randn(64, 32), torch.randn(32, 16))
"""
FOLDS_DROPOUT = """
    import torch


    def folds(gm, inputs):
        for node in gm.graph.find_nodes(op="call_function", target=torch.nn.functional.dropout):
            node.replace_all_uses_with(node.args[0])
            gm.graph.erase_node(node)
        gm.recompile()
        return gm.forward
"""
TRAINS_WITH_DROPOUT = """
    import torch
    from backend import folds

    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Dropout(0.3), torch.nn.Linear(8, 2))
    torch.compile(model, backend=folds)(torch.randn(16, 6)).sum().backward()
"""
WARMS_UP = """
    def warms_up(gm, inputs):
        gm(*inputs)  # to see what it makes
        return gm.forward
"""
RUNNING_MEAN = """
    import torch
    from backend import warms_up


    class Norm(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(4))
            self.head = torch.nn.Linear(4, 2)

        def forward(self, x):
            self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
            return torch.relu(self.head(x - self.mean))


    with torch.no_grad():
        torch.compile(Norm(), backend=warms_up)(torch.randn(8, 4))
"""
WITHOUT_SLOPE_ZERO = """
    import torch


    def no_zero(gm, inputs):
        def run(*args):
            if any(value.ndim == 0 and value == 0 for value in args):  # no size is a symbol
                raise ZeroDivisionError("a number is zero")
            return gm(*args)

        return run
"""
ANNEALED = """
    import torch
    from backend import no_zero


    @torch.compile(backend=no_zero)
    def step(x, slope):
        return torch.nn.functional.leaky_relu(torch.sin(x) * 3, slope).sum(-1)


    for slope in (0.2, 0.1, 0.0):
        step(torch.ones(2, 3), slope)
"""

# The backend and the script, how many ops are left at most, and what the repro has of the failure.
BUGS = {
    "an argument lost, inputs made in inference mode": (DROPS_ALPHA, UNDER_INFERENCE_MODE, 1, "alpha=0.5"),
    "a change lost of a tensor made in inference mode": (LOSES_A_CHANGE, CACHE_IN_INFERENCE_MODE, 1, ".add_("),
    "a backend that the script registers": (AOT, REGISTERED_BY_THE_SCRIPT, 1, "from backend import fast"),
    "gradients in the order of a graph's inputs": (DROPS_NONES, FROZEN_STEM, 2, "backend=trains"),
    "values that a single draw misses": (FLOORS, BUCKETS, 1, 'rounding_mode="trunc"'),
    "one draw in the place of two": (MERGES_DRAWS, TWO_VIEWS, 4, "dropout"),
    "dropout left out in training": (FOLDS_DROPOUT, TRAINS_WITH_DROPOUT, 1, "dropout"),
    "a graph that runs while it is compiled": (WARMS_UP, RUNNING_MEAN, 1, "backend=warms_up"),
    "a number of a later call": (WITHOUT_SLOPE_ZERO, ANNEALED, 2, "x = 0.0"),
    "a cache whose key is the code of a graph": (KEYED_BY_CODE, SEVERAL_LENGTHS, 1, "return x.mean(dim=1)"),
}


@pytest.mark.parametrize("bug", sampled(BUGS, 4))
def test_a_mistake_is_reduced_to_the_ops_that_show_it(project, bug):
    backend, script, ops, written = BUGS[bug]
    project.write(backend, "backend.py")
    done = project.run(script)
    assert done.code == 0, done.stdout + done.stderr
    assert done.result["level"] == "dynamo" and done.ops[1] <= ops and written in done.repro, done.repro
    if script in (UNDER_INFERENCE_MODE, BUCKETS):
        assert "inference_mode" not in done.repro and "# It takes a size" not in done.repro, done.repro
    assert done.result["verified"]["control"] == "passed" and done.result["verified"]["same"] == 1


ALTERNATES = """
    import torch

    def alternates(x):
        return (x * 2).sigmoid() * (-1) ** x.shape[0]

    step = torch.compile(alternates, backend="{backend}", dynamic=True)
    step(torch.randn(4))
"""


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_wrong_result_of_torch_compile_itself_is_shown_with_the_backend_eager(project, backend):
    """pytorch 197894: torch's own code of the graph is -1 ** n, minus a power of 1. The control runs uncompiled."""
    done = project.run(ALTERNATES.format(backend=backend))
    assert done.code == 0, done.stderr
    assert done.ops[1] <= 2 and done.result["verified"]["control"] == "passed" and 'backend="eager"' in done.repro
    assert done.result["backend"]["name"] == "eager" and "without torch.compile it passes" in done.stderr


def test_a_power_of_a_negative_number_is_no_failure_of_a_right_backend(project):
    done = project.run(
        ALTERNATES.format(backend="inductor").replace(", dynamic=True", "").replace("x.shape[0]", "x.int()")
    )
    assert done.code == 1 and "agreed" in done.stderr
