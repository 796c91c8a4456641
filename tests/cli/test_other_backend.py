"""`minify run --backend NAME script.py`: another backend compiles than the script says."""

import pytest

pytestmark = pytest.mark.timeout(180)

COMPILERS = """
import torch
from torch._dynamo import register_backend


@register_backend
def no_tanh(gm, inputs):
    if any("tanh" in str(node.target) for node in gm.graph.nodes):
        raise LookupError("no tanh")
    return gm.forward


def wrong_sin(gm, inputs):
    def call(*args):
        results = gm(*args)
        return tuple(result + 1 for result in results) if "sin" in gm.code else results

    return call
"""

PLAIN = """
import torch


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return OP(self.linear(x)).relu()


torch.manual_seed(0)
model = torch.nn.Sequential(Block(), torch.nn.Flatten())
x = torch.randn(3, 4)
COMPILE
print("loss", torch.nn.MSELoss()(model(x), x).item() > 0)
"""


@pytest.fixture
def stranger(project):
    """`stranger(op, compile)` writes a model's script into a folder of its own, beside the one with the backends."""

    def write(op="torch.tanh", compile=""):
        (project.folder / "models").mkdir()
        project.write(PLAIN.replace("OP", op).replace("COMPILE", compile), "models/model.py")
        return project

    project.write(COMPILERS, "compilers.py")
    return write


@pytest.mark.soak
def test_a_script_that_names_another_backend(stranger):
    project = stranger(compile="model = torch.compile(model, mode='max-autotune')")
    options = ("--verify", "1", "--backend", "no_tanh", "--import", "compilers")
    done = project.minify("run", "--out", project.out, *options, "models/model.py")
    assert done.code == 0 and done.ops == (4, 1), done.stderr
    assert 'backend="no_tanh"' in done.repro and "import compilers" in done.repro and "mode" not in done.repro


@pytest.mark.soak
def test_a_script_that_compiles_nothing_has_its_modules_compiled(stranger):
    project = stranger("torch.sin")
    done = project.minify(
        "run", "--out", project.out, "--verify", "1", "--backend", "compilers:wrong_sin", "models/model.py"
    )
    assert done.code == 0 and done.ops[1] == 1, done.stderr
    assert "torch.sin(" in done.repro and done.result["failure"]["kind"] == "wrong-result"


def test_a_backend_that_works_leaves_nothing_to_reduce(stranger):
    project = stranger("torch.cos")
    done = project.minify("run", "--out", project.out, "--backend", "compilers:no_tanh", "models/model.py")
    assert done.code == 1 and "no_tanh" in done.stderr
    options = ("--backend", "no_tan", "--import", "compilers")
    done = project.minify("run", "--out", project.out, *options, "models/model.py")
    assert done.code == 1 and "--backend" in done.stderr


@pytest.mark.parametrize(
    ("options", "noun"),
    [
        ("--import compilers", "--backend"),
        ("--backend gone:compiler", "gone"),
        ("--backend x-y:compiler", "x-y"),
        ("--backend eager --level source", "backend"),
    ],
)
def test_what_is_wrong_is_said(refusing, options, noun):
    refusing.write("import torch", "model.py")
    done = refusing.minify("run", *options.split(), "model.py")
    assert done.code == 2 and noun in done.stderr


EDITABLE = """
import importlib.util
import sys


class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in ("unlisted", "unlisted_main"):
            return importlib.util.spec_from_file_location(name, FOLDER + f"/{name}.py")


sys.meta_path.append(Finder)
"""


@pytest.mark.soak
def test_a_module_that_a_finder_of_an_editable_install_finds(project):
    """Setuptools and other builders install such a finder at the start of the interpreter, from a .pth file."""
    project.write(COMPILERS, "elsewhere/unlisted.py")
    project.write(PLAIN.replace("OP", "torch.tanh").replace("COMPILE", ""), "elsewhere/unlisted_main.py")
    folder = project.folder / "elsewhere"
    project.write(EDITABLE.replace("FOLDER", repr(str(folder))), "start/sitecustomize.py")
    options = ("run", "--out", project.out, "--verify", "1", "--backend", "unlisted:no_tanh", "-m", "unlisted_main")
    done = project.minify(*options, PYTHONPATH=str(project.folder / "start"))
    assert done.ops[1] == 1, done.stderr
