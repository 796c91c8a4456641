"""`minify run` on a device that is neither the CPU nor CUDA: an accelerator in host memory, built with g++.

Like CUDA, the device refuses a process whose parent has used it. So these tests also fail if the process that forks
the probes uses the device of a Case.
"""

import shutil
import subprocess
from pathlib import Path

import pytest
import torch

HERE = Path(__file__).parent

pytestmark = pytest.mark.timeout(240)

NO_TANH = """
import oddacc
import minifier_backends.faulty
import torch

model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh(), torch.nn.Linear(8, 4)).to("oddacc").eval()
compiled = torch.compile(model, backend="faulty_raise")
with torch.no_grad():
    print(compiled(torch.randn(3, 8, device="oddacc")).sum())
"""


# The same, where each op is run by itself: the one after the bad kernel raises.
RAISED_LATER = """
import oddacc
import torch

class OpByOp(torch.fx.Interpreter):
    def call_function(self, target, args, kwargs):
        out = super().call_function(target, args, kwargs)
        if target is torch.tanh:
            torch.ops.oddacc.lose()
        return out

def op_by_op(gm, inputs):
    return OpByOp(gm).run

def step(x):
    return torch.cos(torch.sin(torch.tanh(x)).clone())

torch.compile(step, backend=op_by_op)(torch.randn(6, device="oddacc"))
"""

WORKSPACE = """
import oddacc
import torch
from torch._dynamo import register_backend

MEMORY = torch.empty(16, device="oddacc")

@register_backend
def workspace(gm, inputs):
    if any(node.target is torch.tanh for node in gm.graph.nodes):
        raise NotImplementedError("tanh")
    return gm.forward
"""

USES_WORKSPACE = """
import torch
import workspace

def step(x):
    return torch.sin(torch.tanh(x) * 2) + 1

torch.compile(step, backend="workspace")(torch.randn(6, device="oddacc"))
"""


@pytest.fixture(scope="session")
def library(tmp_path_factory, processes):
    """The device's library, compiled in about half a minute."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("there is no g++ to build the device with")
    torch_folder, path = Path(torch.__file__).parent, tmp_path_factory.mktemp("oddacc") / "liboddacc.so"
    include, libraries = torch_folder / "include", torch_folder / "lib"
    command = [compiler, "-std=c++20", "-O0", "-shared", "-fPIC", f"-I{include}", str(HERE / "oddacc.cpp")]
    command += ["-o", str(path), f"-L{libraries}", "-lc10", "-ltorch_cpu", f"-Wl,-rpath,{libraries}"]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr[-3000:]
    return path


@pytest.fixture
def on_oddacc(soak, project, library):
    """Run `minify run` on a script next to the device's module; return how it ended."""

    def run(script, **modules):
        shutil.copy(library, project.folder)
        shutil.copy(HERE / "oddacc.py", project.folder)
        for name, text in modules.items():
            project.write(text, f"{name}.py")
        done = project.run(script, fresh=True)
        assert done.code == 0, done.stderr
        assert done.result["level"] == "dynamo" and done.ops[1] == 1, done.repro
        assert done.result["verified"] == {"runs": 1, "same": 1, "control": "passed"}
        return done

    return run


def test_the_repro_names_the_device(on_oddacc):
    done = on_oddacc(NO_TANH)
    assert 'x = torch.randn(1, device="oddacc:0")' in done.repro and done.repro.startswith("import oddacc")
    assert done.result["failure"]["message"] == "no lowering for tanh"


def test_an_error_that_a_later_op_raises(on_oddacc):
    done = on_oddacc(RAISED_LATER)
    assert done.result["failure"]["type"] == "torch.AcceleratorError"
    assert "return torch.tanh(x)" in done.repro and 'os.environ["CUDA_LAUNCH_BLOCKING"] = "1"' in done.repro


def test_a_backend_that_uses_the_device_when_it_is_imported(on_oddacc):
    done = on_oddacc(USES_WORKSPACE, workspace=WORKSPACE)
    assert 'device="oddacc:0"' in done.repro
