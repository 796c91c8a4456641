"""Backends with mistakes that people make: nothing in them fails on command."""

import pytest

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


def test_a_wrong_result_for_inputs_made_in_inference_mode(project):
    project.write(DROPS_ALPHA, "backend.py")
    done = project.run(UNDER_INFERENCE_MODE)
    assert done.code == 0, done.stderr
    assert done.ops[1] == 1 and "alpha=0.5" in done.repro and "inference_mode" not in done.repro


def test_a_lost_change_of_a_tensor_made_in_inference_mode(project):
    """Outside of inference mode torch refuses the change: eager would fail."""
    project.write(LOSES_A_CHANGE, "backend.py")
    done = project.run(CACHE_IN_INFERENCE_MODE)
    assert done.code == 0, done.stderr
    assert done.ops == (6, 1) and ".add_(" in done.repro, done.repro


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


def test_a_backend_of_a_module_that_the_script_registers(project):
    project.write(AOT, "backend.py")
    done = project.run(REGISTERED_BY_THE_SCRIPT)
    assert done.code == 0, done.stderr
    assert done.ops == (3, 1) and "from backend import fast" in done.repro and "backend=fast)" in done.repro


@pytest.mark.soak
def test_gradients_in_the_order_of_a_graphs_inputs(project):
    """Dynamo has the inputs in the order in which ops read them, in a cut graph as in the whole."""
    project.write(DROPS_NONES, "backend.py")
    done = project.run(FROZEN_STEM)
    assert done.code == 0, done.stderr
    assert done.result["level"] == "dynamo" and done.ops[1] <= 2, done.repro


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


def test_values_that_a_single_draw_misses_are_no_size(project):
    project.write(FLOORS, "backend.py")
    done = project.run(BUCKETS)
    assert done.code == 0 and done.ops[1] == 1, done.stderr
    assert "# It takes" not in done.repro or "size" not in done.repro.partition("# It takes")[2], done.repro


@pytest.mark.soak
def test_one_draw_in_the_place_of_two(project):
    project.write(MERGES_DRAWS, "backend.py")
    done = project.run(TWO_VIEWS)
    assert done.code == 0, done.stdout + done.stderr
    assert done.repro.count("dropout") == 2 and done.result["verified"]["control"] == "passed"


@pytest.mark.soak
def test_a_cache_that_takes_the_code_of_a_graph_for_its_key(project):
    project.write(KEYED_BY_CODE, "backend.py")
    done = project.run(SEVERAL_LENGTHS)
    assert done.code == 0, done.stderr
    assert done.ops == (8, 1) and "return x.mean(dim=1)" in done.repro, done.repro
    assert done.result["verified"]["control"] == "passed" and "compiled(torch.ones(" in done.repro
