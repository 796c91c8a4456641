"""`minify run program.pt2 --backend NAME`."""

import pytest
import torch
from failing_scripts import NO_TANH
from layers import SOAK

pytestmark = pytest.mark.timeout(120)

BACKEND = f"""{NO_TANH}
from torch._inductor.lowering import register_lowering


def held(gm, inputs):
    return no_tanh(gm, inputs)


@register_lowering(torch.ops.aten.tanh.default, type_promotion_kind=None)
def _(x):
    raise ArithmeticError("no tanh of a buffer")
"""


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x, *, scale):
        return (self.linear(x).sin() + 1).tanh().cos() * scale


@pytest.fixture
def exported(project):
    program = torch.export.export(Model().eval(), (torch.randn(3, 4),), {"scale": torch.tensor(2.0)})
    torch.export.save(program, project.folder / "model.pt2")
    project.write(BACKEND, "compilers.py")
    return project


@pytest.mark.parametrize(
    "name", ["no_tanh", pytest.param("held", marks=SOAK), pytest.param("aot_inductor", marks=SOAK)]
)
def test_an_exported_program_is_reduced(exported, name):
    options = ("--out", exported.out, "--verify", "1", "--backend", f"compilers:{name}")
    done = exported.minify("run", *options, "model.pt2")
    assert done.code == 0 and done.ops[1] == 1, done.stderr
    assert "torch.ops.aten.tanh.default(x)" in done.repro and "compilers" in done.repro
    assert done.result["failure"]["stage"] == "compile"


def test_a_program_needs_a_backend_and_one_that_works_leaves_nothing(exported):
    for arguments in (["model.pt2"], ["model.pt2", "--backend", "eager"], ["--backend", "eager", "gone.pt2"]):
        done = exported.minify("run", "--out", exported.out, *arguments)
        assert done.code == 2 and arguments[-1 if "gone" in arguments[-1] else 0] in done.stderr
    done = exported.minify("run", "--out", exported.out, "--backend", "eager", "model.pt2")
    assert done.code == 1 and "model.pt2" in done.stderr
