"""`minify run program.pt2 --backend NAME`."""

import pytest
import torch
from layers import SOAK

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


@pytest.mark.parametrize("name", ["compilers:no_tanh", pytest.param("compilers:held", marks=SOAK)])
def test_an_exported_program_is_reduced(exported, name):
    done = exported.minify("run", "--out", exported.out, "--verify", "1", "--backend", name, "model.pt2")
    assert done.code == 0 and done.ops[1] == 1, done.stderr
    assert "torch.ops.aten.tanh.default(x)" in done.repro and "compilers" in done.repro


def test_a_program_needs_a_backend_and_one_that_works_leaves_nothing(exported):
    for arguments in (["model.pt2"], ["model.pt2", "--backend", "eager"], ["--backend", "eager", "gone.pt2"]):
        done = exported.minify("run", "--out", exported.out, *arguments)
        assert done.code == 2 and arguments[-1 if "gone" in arguments[-1] else 0] in done.stderr
    done = exported.minify("run", "--out", exported.out, "--backend", "eager", "model.pt2")
    assert done.code == 1 and "model.pt2" in done.stderr


TWIST = """
import torch
from torch._inductor.lowering import register_lowering


@torch.library.custom_op("twisted::twist", mutates_args=())
def twist(x: torch.Tensor) -> torch.Tensor:
    return x.flip(0)


@twist.register_fake
def _(x):
    return torch.empty_like(x)


@register_lowering(torch.ops.twisted.twist.default, type_promotion_kind=None)
def _(x):
    raise ArithmeticError("no twisting of a buffer")
"""

FOR_AOT_INDUCTOR = """
import torch
import twisted


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x, *, scale):
        return twisted.twist(self.linear(x).sin()).cos() * scale


program = torch.export.export(Model().eval(), (torch.randn(3, 4),), {"scale": torch.tensor(2.0)})
"""
COMPILED = """
torch._inductor.aoti_compile_and_package(program, inductor_configs={"max_autotune": False})
"""


def check_twist(done):
    assert done.code == 0 and done.ops[1] == 1, done.stderr
    assert "def aot_inductor(" in done.repro and "twist.default(x)" in done.repro and "import twisted" in done.repro
    assert "options=" not in done.repro.rpartition("torch.compile(")[2], "it does not need them"
    assert done.result["failure"]["stage"] == "compile", done.result


@pytest.mark.soak
def test_what_aot_inductor_cannot_compile_is_reduced(project):
    project.write(TWIST, "twisted.py")
    project.write(FOR_AOT_INDUCTOR + COMPILED, "package.py")
    check_twist(project.minify("run", "--out", project.out, "--verify", "1", "package.py"))


def test_a_saved_program_is_compiled_by_aot_inductor(project, soak):
    project.write(TWIST, "twisted.py")
    project.write(FOR_AOT_INDUCTOR + 'torch.export.save(program, "model.pt2")\n', "save.py")
    assert project.python("save.py").returncode == 0
    options = ["--out", project.out, "--verify", "1", "--backend", "twisted:aot_inductor"]
    check_twist(project.minify("run", *options, "model.pt2"))


HEALTHY = """
import sys
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
        self.x = torch.nn.Parameter(torch.ones(2))
        self.register_buffer("count", torch.zeros(2))

    def forward(self, x, times: int, *, shift):
        self.count.add_(1)
        return self.layers(x) * self.x * times * self.count + shift


torch.manual_seed(0)
inputs, shift = (torch.ones(3, 2), 4), torch.tensor(1.0)
program = torch.export.export(Model().eval(), inputs, {"shift": shift})
path = torch._inductor.aoti_compile_and_package(program, package_path=sys.argv[1])
loaded = torch._inductor.aoti_load_package(path)
print([round(loaded(*inputs, shift=shift).sum().item(), 3) for _ in range(3)], type(loaded.loader).__name__)
"""


@pytest.mark.timeout(500)
def test_a_package_that_works_does_as_without_the_tool(project, soak):
    """Its names are not those of arguments, it is given what is no tensor, and changes what it holds."""
    script = project.write(HEALTHY)
    plain = project.python(script, project.root / "plain.pt2", timeout=200)
    assert plain.returncode == 0, plain.stderr
    done = project.minify("run", "--out", project.out, "failing.py", project.root / "other.pt2", timeout=280)
    assert done.code == 1 and done.stdout == plain.stdout, done.stderr  # the second run prints nothing
