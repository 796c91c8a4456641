"""The part at fault, and the changes that avoid the failure."""

import zipfile

import pytest

pytestmark = pytest.mark.timeout(300)


# A backend's compiler for backward graphs negates wrongly.
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
print(torch.compile(model, backend="faulty_raise")(torch.ones(3)))
"""


def test_a_finished_run_is_explained_later_and_the_graphs_of_its_compilers_are_kept(project):
    done = project.run(COMPILER)
    seconds = done.result["seconds"]
    assert done.result["explained"] is None and project.minify("explain", project.out).code == 0
    explained = done.result["explained"]
    assert done.result["seconds"] == seconds
    assert explained["part"] == "the backend's compiler of backward graphs, backward", explained
    names = ["aot-backward-1.py", "aot-backward-1.changed.py", "aot-forward-1.py"]
    assert explained["artifacts"] == names, "each graph as its compiler gets it, and as it changes it"
    got, changed, _ = ((project.out / "artifacts" / name).read_text() for name in names)
    assert "torch.ops.aten.neg.default" in got and "torch.ops.aten.abs.default" in changed
    assert "lambda" not in got, "a line of the script"
    assert done.result["backend"]["distribution"] is None, "whose parts torch puts together, but the script defines"
    with zipfile.ZipFile(project.out / "bundle.zip") as bundle:
        assert {f"artifacts/{name}" for name in explained["artifacts"]} <= {*bundle.namelist()}


def test_an_op_has_its_place_in_the_model_and_not_in_the_bundle(project):
    done = project.run(MODULES)
    assert [(o["place"], o["class"], o["module"]) for o in done.result["origins"]] == [("failing.py:6", "Act", "0.act")]
    assert "In the model: `tanh` in `Act` (`0.act`)." in (project.out / "report.md").read_text()
    with zipfile.ZipFile(project.out / "bundle.zip") as bundle:
        assert "failing.py:6" not in bundle.read("result.json").decode()


def test_a_folder_without_a_repro_is_refused(project):
    done = project.minify("explain", project.folder)
    assert done.code == 2 and "has no repro" in done.stderr
