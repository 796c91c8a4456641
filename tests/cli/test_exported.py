"""`minify run program.pt2 --backend NAME`."""

import pytest
import torch

pytestmark = pytest.mark.timeout(120)

BACKEND = """
import torch
from torch._dynamo import register_backend


@register_backend
def no_tanh(gm, inputs):
    if any("tanh" in str(node.target) for node in gm.graph.nodes):
        raise LookupError("no tanh")
    return gm.forward


def held(gm, inputs):
    return no_tanh(gm, inputs)
"""


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x, *, scale):
        return (self.linear(x).sin() + 1).tanh().cos() * scale


@pytest.fixture
def exported(project):
    program = torch.export.export(Model(), (torch.randn(3, 4),), {"scale": torch.tensor(2.0)})
    torch.export.save(program, project.folder / "model.pt2")
    project.write(BACKEND, "compilers.py")
    return project


@pytest.mark.parametrize("name", ["compilers:no_tanh", "compilers:held"])
def test_an_exported_program_is_reduced(exported, name):
    done = exported.minify("run", "--out", exported.out, "--verify", "1", "--backend", name, "model.pt2")
    assert done.code == 0 and done.ops[1] == 1, done.stderr
    assert "torch.ops.aten.tanh.default(x)" in done.repro and "compilers" in done.repro


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["model.pt2"], "say with --backend"),
        (["--backend", "eager", "gone.pt2"], "is not an exported program"),
        (["--backend", "eager", "compilers.py"], "--backend is for exported programs"),
    ],
)
def test_what_is_wrong_is_said(exported, arguments, said):
    done = exported.minify("run", "--out", exported.out, *arguments)
    assert done.code == 2 and said in done.stderr


def test_one_that_works_is_called_by_its_own_name(exported):
    done = exported.minify("run", "--out", exported.out, "--backend", "eager", "model.pt2")
    assert done.code == 1 and "model.pt2 ended with exit status 0" in done.stderr
