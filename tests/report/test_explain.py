"""The part at fault, and the changes that avoid the failure."""

import shutil
import zipfile

import pytest

pytestmark = pytest.mark.timeout(300)
ASKS = {"MINIFY_EXPLAIN": "1"}

# A backend's decomposition computes something else: gelu by its fast approximation.
DECOMPOSITION = """
import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd

aten = torch.ops.aten
TABLE = {
    aten.silu.default: lambda x: x * torch.sigmoid(x),
    aten.gelu.default: lambda x, approximate="none": x * torch.sigmoid(1.702 * x),
}
lowers = aot_autograd(fw_compiler=lambda gm, inputs: make_boxed_func(gm.forward), decompositions=TABLE)

def f(x):
    return torch.nn.functional.gelu(torch.nn.functional.silu(x).cos() * 3) + 1

with torch.no_grad():
    print(torch.compile(f, backend=lowers)(torch.randn(64)).sum())
"""

# A user's pass of inductor exchanges what is subtracted.
PASS = """
import torch
import torch._inductor.config

class Swap:
    def __call__(self, graph):
        for node in graph.nodes:
            if node.target is torch.ops.aten.sub.Tensor:
                node.args = node.args[::-1]

    def uuid(self):
        return b"swap"

torch._inductor.config.post_grad_custom_post_pass = Swap()

def f(x, y):
    return (x.sin() - y).tanh()

with torch.no_grad():
    print(torch.compile(f)(torch.ones(64), torch.full((64,), 3.0)).sum())
"""

# A backend's compiler for backward graphs negates wrongly.
# The compiler has no gelu, whose decomposition reads the wrong decomposition of silu.
NEEDED_DECOMPOSITION = """
import torch
from torch._dynamo.backends.common import aot_autograd

aten = torch.ops.aten

def gelu(x, approximate="none"):
    return 0.5 * x * (1 + torch.erf(x * 0.5**0.5)) + aten.silu(x) - x * torch.sigmoid(x)

def compiler(gm, inputs):
    if any(node.target is aten.gelu.default for node in gm.graph.nodes):
        raise NotImplementedError("no gelu")
    return gm.forward

table = {aten.gelu.default: gelu, aten.silu.default: lambda x: x * torch.sigmoid(x) + 1}
lowers = aot_autograd(fw_compiler=compiler, decompositions=table)
with torch.no_grad():
    torch.compile(torch.nn.functional.gelu, backend=lowers)(torch.ones(3))
"""

COMPILER = """
import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd

def forward(gm, inputs):
    return make_boxed_func(gm.forward)

def backward(gm, inputs):
    for node in gm.graph.nodes:
        if node.target is torch.ops.aten.neg.default:
            node.target = torch.ops.aten.abs.default
    gm.recompile()
    return make_boxed_func(gm.forward)

halves = aot_autograd(fw_compiler=forward, bw_compiler=backward)
torch.compile(lambda x: x.sin().cos().sum(), backend=halves)(torch.ones(8, requires_grad=True)).backward()
"""

# An option of a backend: without it, the backend works.
OPTION = """
import torch

def careful(gm, inputs, options=None):
    if (options or {}).get("fast_tanh"):
        for node in gm.graph.nodes:
            if node.target == "tanh":
                raise RuntimeError("no fast tanh on this machine")
    return gm.forward

print(torch.compile(lambda x: x.tanh().sin(), backend=careful, options={"fast_tanh": True})(torch.ones(3)))
"""

# An argument of the call that makes a backend: at another value, the backend works.
ARGUMENT = """
import functools
import torch

def careful(gm, inputs, *, fast=False, level=0):
    for node in gm.graph.nodes:
        if fast and level > 1 and node.target == "tanh":
            raise RuntimeError("no fast tanh on this machine")
    return gm.forward

class Careful:
    def __init__(self, fast, level):
        self.fast, self.level = fast, level

    def __call__(self, gm, inputs):
        return careful(gm, inputs, fast=self.fast, level=self.level)

made = MADE
print(torch.compile(lambda x: x.tanh().sin(), backend=made)(torch.ones(3)))
"""

# A backend's partition function gives the backward graph another constant.
PARTITION = """
import torch
from functorch.compile import default_partition, make_boxed_func
from torch._dynamo.backends.common import aot_autograd

def compiler(gm, inputs):
    return make_boxed_func(gm.forward)

def halves(joint, *args, **kwargs):
    forward, backward = default_partition(joint, *args, **kwargs)
    for node in backward.graph.nodes:
        if node.target is torch.ops.aten.neg.default:
            node.target = torch.ops.aten.abs.default
    backward.recompile()
    return forward, backward

own = aot_autograd(fw_compiler=compiler, partition_fn=halves)
torch.compile(lambda x: x.sin().cos().sum(), backend=own)(torch.ones(8, requires_grad=True)).backward()
"""

# https://github.com/pytorch/pytorch/issues/195579: grid_sample at places that are not a number gives zeros.
OF_INDUCTORS_DECOMPOSITIONS = """
import torch

def f(x, places):
    return torch.nn.functional.grid_sample(x.sin(), places, align_corners=False).cos()

with torch.no_grad():
    print(torch.compile(f)(torch.ones(1, 1, 4, 4), torch.full((1, 4, 4, 2), float("nan"))).sum())
"""

# The failing op stands in a module of its own.
MODULES = """
import minifier_backends.faulty
import torch

class Act(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(x) * 2

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.act = Act()
    def forward(self, x):
        return x.sin() + self.act(x)

model = torch.nn.Sequential(Block(), torch.nn.ReLU(), Block())
print(torch.compile(model, backend="faulty_raise", fullgraph=FULL)(torch.ones(3)))
"""

BACKEND_ALONE = """
import minifier_backends.faulty
import torch

torch.compile(lambda x: x.tanh().sin(), backend="faulty_raise")(torch.randn(3))
"""


def test_a_decomposition_of_a_backend_is_at_fault(project):
    done = project.run(DECOMPOSITION, **ASKS)
    explained = done.result["explained"]
    assert explained["part"] == "the decomposition of aten.gelu.default", explained
    assert explained["workarounds"] == [], "there is no inductor to set"
    assert "at fault  the decomposition of aten.gelu.default" in done.stderr + done.stdout


def test_a_decomposition_is_at_fault_where_another_one_is_needed(project):
    """Without all decompositions the program fails in another way: each is left out alone."""
    explained = project.run(NEEDED_DECOMPOSITION, **ASKS).result["explained"]
    assert explained["part"].startswith("the decomposition of aten.silu.default"), explained


def test_a_compiler_of_a_backend_is_at_fault_and_its_graphs_are_kept(project):
    done = project.run(COMPILER, **ASKS)
    explained = done.result["explained"]
    assert explained["part"] == "the backend's compiler of backward graphs, backward", explained
    names = ["aot-backward-1.py", "aot-backward-1.changed.py", "aot-forward-1.py"]
    assert explained["artifacts"] == names, "each graph as its compiler gets it, and as it changes it"
    got, changed, _ = ((project.out / "artifacts" / name).read_text() for name in names)
    assert "torch.ops.aten.neg.default" in got and "torch.ops.aten.abs.default" in changed
    assert "lambda" not in got, "a line of the script"
    assert done.result["backend"]["distribution"] is None, "whose parts torch puts together, but the script defines"
    with zipfile.ZipFile(project.out / "bundle.zip") as bundle:
        assert {f"artifacts/{name}" for name in explained["artifacts"]} <= {*bundle.namelist()}


def test_an_option_of_a_backend_is_left_out(project):
    explained = project.run(OPTION, **ASKS).result["explained"]
    assert explained["workarounds"] == ['without options={"fast_tanh": True}']
    assert explained["part"] == 'what the program\'s own options={"fast_tanh": True} asks for'


@pytest.mark.parametrize(
    ("made", "line"),
    [
        ("functools.partial(careful, fast=True, level=2)", "backend=functools.partial(careful, fast=False, level=2)"),
        ("Careful(fast=True, level=2)", "made = Careful(fast=False, level=2)"),
    ],
    ids=["partial", "an object of the script"],
)
def test_an_argument_of_a_backend_gets_another_value(project, made, line):
    done = project.run(ARGUMENT.replace("MADE", made), **ASKS)
    explained = done.result["explained"]
    assert explained["workarounds"] == [line, line.replace("fast=False, level=2", "fast=True, level=0")]
    assert explained["part"] == "what the program's own fast=True asks for"
    assert f"avoid     {line}  # tested on the repro" in done.stderr + done.stdout


def test_a_partition_function_is_at_fault(project):
    done = project.run(PARTITION, **ASKS)
    assert done.result["explained"]["part"] == "the backend's partition function, halves", done.result["explained"]


def test_a_module_is_excluded_from_compilation_if_the_script_runs_then(project):
    done = project.run(MODULES.replace("FULL", "False"), **ASKS)
    line = "Act.forward = torch.compiler.disable(Act.forward)"
    assert done.result["explained"]["uncompiled"] == line
    assert f"avoid     {line}  # tested on the script" in done.stderr + done.stdout
    (origin,) = done.result["origins"]
    assert (origin["place"], origin["class"], origin["module"]) == ("failing.py:6", "Act", "0.act")
    assert "In the model: `tanh` in `Act` (`0.act`)." in (project.out / "report.md").read_text()
    with zipfile.ZipFile(project.out / "bundle.zip") as bundle:
        assert "failing.py:6" not in bundle.read("result.json").decode()


def test_a_module_of_a_whole_graph_is_not_excluded(project):
    done = project.run(MODULES.replace("FULL", "True"), **ASKS)
    assert done.result["explained"] is None, "with the module excluded, Dynamo refuses the script"


@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler")
def test_a_pass_is_at_fault_and_may_be_disabled(project, soak):
    done = project.run(PASS, timeout=280, **ASKS)
    explained, line = done.result["explained"], 'torch._inductor.config.disabled_passes = "post_grad_custom_post_pass"'
    assert explained["part"] == "the program's own pass, torch._inductor.config.post_grad_custom_post_pass"
    assert explained["workarounds"] == ["without torch._inductor.config.post_grad_custom_post_pass = Swap()", line]
    assert line in (project.out / "report.md").read_text()
    asked = {probe["changed"]: probe["result"] for probe in explained["probes"]}
    assert asked["without inductor's passes over the joint graph"] == "fails" and asked[line] == "does not fail"


@pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler")
def test_a_decomposition_is_at_fault_where_nothing_compiles(project, soak):
    explained = project.run(OF_INDUCTORS_DECOMPOSITIONS, timeout=280, **ASKS).result["explained"]
    assert explained["part"].startswith("the decomposition of aten.grid_sampler_2d.default, number 1 of ")
    assert "aot_eager_decomp_partition" in explained["reason"]
    assert not any("torch._inductor" in probe["changed"] for probe in explained["probes"]), "inductor is not asked"
    assert "| the reduced program with `aot_eager_decomp_partition` |" in (project.out / "report.md").read_text()


def test_a_finished_run_is_explained_later(project, soak):
    done = project.run(DECOMPOSITION)
    assert done.result["explained"] is None
    again = project.minify("explain", project.out)
    assert again.code == 0 and again.result["explained"]["part"] == "the decomposition of aten.gelu.default"
    assert again.result["seconds"] == done.result["seconds"]


def test_a_backend_that_compiles_by_itself_has_no_parts(project):
    done = project.run(BACKEND_ALONE, **ASKS)
    assert done.code == 0 and done.result["explained"] is None


def test_a_folder_without_a_repro_is_refused(project):
    done = project.minify("explain", project.folder)
    assert done.code == 2 and "has no repro" in done.stderr
