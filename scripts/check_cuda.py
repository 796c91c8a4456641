"""Check on a CUDA GPU what the tests can only check on the CPU. Prints a line for each point.

Usage: python scripts/check_cuda.py [POINT]... Exits with 0 if all points are ok, 1 if one fails, 2 without a GPU or for
a point that it does not know.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TIMEOUT_SECONDS = 600
NO_TANH = """
def backend(gm, inputs):
    if any(node.target is torch.tanh for node in gm.graph.nodes):
        raise NotImplementedError("tanh")
    return gm.forward
"""
AT_RUN = """
def backend(gm, inputs):
    def run(*args):
        out = gm(*args)
        if any(node.target is torch.tanh for node in gm.graph.nodes):
            %s
        return out
    return run
"""
BAD_KERNEL = AT_RUN % 'torch.zeros(1, device="cuda")[torch.full((1,), 1 << 20, device="cuda")]'
# A kernel that writes to an address that is not its own, compiled by the driver.
BAD_ADDRESS = AT_RUN % (
    """kernel = torch.cuda._compile_kernel(
                'extern "C" __global__ void bad(float* x) { *(float*)16 = x[0]; }', "bad")
            kernel((1, 1, 1), (1, 1, 1), (out[0],))"""
)
ON_A_SIDE_STREAM = (
    AT_RUN
    % """stream = torch.cuda.Stream()
            with torch.cuda.stream(stream):
                torch.cuda._sleep(10_000_000)
                torch.zeros(1, device="cuda")[torch.full((1,), 1 << 20, device="cuda")]"""
)
NO_MEMORY = AT_RUN % 'torch.empty(1 << 50, dtype=torch.uint8, device="cuda")'
STEP = "step = lambda x: torch.sin(torch.tanh(x) * 2) + 1\n"
CALL = 'print(torch.compile(step, backend=backend)(torch.randn(64, device="cuda")).sum())\n'
WRONG_VALUES = """
def backend(gm, inputs):
    def run(*args):
        out = gm(*args)
        has_sin = any(node.target is torch.sin for node in gm.graph.nodes)
        return tuple(o + 0.5 for o in out) if has_sin and args[0].double().sum().item() == 1031.0 else out
    return run

x = torch.full((4096,), 0.25)
x[17], x[170] = 3.25, 4.25
step = torch.compile(lambda x, y: torch.sin(x) * 2 + y.cos(), backend=backend)
step(x.to("cuda"), torch.randn(4096, device="cuda"))
"""
RAISED_LATER = """
class OpByOp(torch.fx.Interpreter):
    def call_function(self, target, args, kwargs):
        if target is torch.nn.functional.embedding:
            args = (args[0] + (1 << 20), *args[1:])
        return super().call_function(target, args, kwargs)

def backend(gm, inputs):
    return OpByOp(gm).run

w, v = torch.randn(64, 32, device="cuda"), torch.randn(32, 16, device="cuda")
step = lambda i: torch.relu(torch.nn.functional.embedding(i, w) @ v)
torch.compile(step, backend=backend)(torch.arange(8, device="cuda"))
"""
IN_GRAPH = """
step = torch.compile(torch.sin, backend=lambda gm, inputs: gm.forward)
x = torch.randn(8, device="cuda")
print(step(x))
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = step(x)
graph.replay()
"""
IMPORTED = """
import torch
from torch._dynamo import register_backend

HAS_CUDA = torch.cuda.is_available() and torch.ones(1, device="cuda").item()
"""
TANH, DEVICE, TF32 = "return torch.tanh(x)", 'device="cuda:0"', "torch.backends.cuda.matmul.fp32_precision"
SYNCHRONOUS = 'os.environ["CUDA_LAUNCH_BLOCKING"] = "1"'
CUDNN = "torch.backends.cudnn.deterministic"


@dataclass(frozen=True)
class Point:
    """A script, and what its run must give. `repro` are texts of the repro; `modules` are files next to the script."""

    script: str
    code: int = 0
    repro: tuple[str, ...] = ()
    says: tuple[str, ...] = ()
    kind: str = ""
    modules: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()


POINTS: dict[str, Point] = {
    "the repro names the device": Point(NO_TANH + STEP + CALL, repro=(TANH, DEVICE), kind="exception"),
    "gradients on the device": Point(
        NO_TANH + STEP + CALL.replace('"cuda")', '"cuda", requires_grad=True)'), repro=(TANH, DEVICE)
    ),
    "is_available() when the backend is imported": Point(
        STEP + 'import odd_backend\ntorch.compile(step, backend="odd")(torch.randn(8, device="cuda"))\n',
        repro=("import odd_backend", DEVICE),
        modules={"odd_backend": IMPORTED + NO_TANH + 'register_backend(backend, name="odd")\n'},
    ),
    "an input on the CPU, moved by the graph": Point(
        NO_TANH
        + 'step = lambda x: torch.tanh(x.to("cuda")) * 2\ntorch.compile(step, backend=backend)(torch.randn(8))\n',
        repro=("torch.tanh(",),
    ),
    "stored values go to the device": Point(
        WRONG_VALUES, repro=('.to("cuda:0")', "return torch.sin("), kind="wrong-result"
    ),
    "random numbers of the device": Point(
        "backend = lambda gm, inputs: gm.forward\nstep = lambda x: x + torch.rand_like(x) * 2\n" + CALL,
        code=1,
        says=("its first result agreed with eager's",),
    ),
    "dropout and kernels of inductor": Point(
        "backend = 'inductor'\nstep = lambda x: torch.nn.functional.dropout(x.sin(), 0.5) * 2\n" + CALL,
        code=1,
        says=("no backend call failed",),
    ),
    "an asynchronous device-side assert": Point(
        BAD_KERNEL + STEP + CALL, repro=("torch.accelerator.synchronize()", TANH, DEVICE)
    ),
    "a device-side assert that a later op raises": Point(
        RAISED_LATER, repro=(SYNCHRONOUS, "return torch.nn.functional.embedding(")
    ),
    "a device-side assert with CUDA_LAUNCH_BLOCKING": Point(
        BAD_KERNEL + STEP + CALL, repro=(TANH, DEVICE), variables={"CUDA_LAUNCH_BLOCKING": "1"}
    ),
    "an illegal memory access": Point(
        BAD_ADDRESS + STEP + CALL, repro=("torch.accelerator.synchronize()", TANH, DEVICE)
    ),
    "a device-side assert on a side stream": Point(
        ON_A_SIDE_STREAM + STEP + CALL, repro=("torch.accelerator.synchronize()", TANH, DEVICE)
    ),
    "memory of the device runs out": Point(NO_MEMORY + STEP + CALL, repro=(TANH, DEVICE), kind="out-of-memory"),
    "TF32 is state": Point(
        NO_TANH.replace("if any", f'if {TF32} == "tf32" and any') + f'{TF32} = "tf32"\n' + STEP + CALL,
        repro=(f'{TF32} = "tf32"',),
    ),
    "cuDNN's flags are state": Point(
        NO_TANH.replace("if any", f"if {CUDNN} and any") + f"{CUDNN} = True\n" + STEP + CALL,
        repro=(f"{CUDNN} = True",),
    ),
    "TF32 of inductor's matmul is no alarm": Point(
        'backend = "inductor"\ntorch.set_float32_matmul_precision("high")\nstep = lambda x: x @ x.t()\n'
        + CALL.replace("randn(64,", "randn(512, 512,"),
        code=1,
        says=("no backend call failed",),
    ),
    "a call while a CUDA graph is captured": Point(
        IN_GRAPH, code=1, says=("exit status 0 and no backend call failed",)
    ),
}
POINTS["two probes on the device at the same time"] = replace(
    POINTS["the repro names the device"], options=("--workers", "2")
)


def run(point: Point) -> str:
    """Run the tool on the point's script; return why it fails, or an empty string."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "failing.py").write_text("import torch\n" + point.script)
        for module, text in point.modules.items():
            (folder / f"{module}.py").write_text(text)
        command = [
            sys.executable,
            "-m",
            "minifier",
            "run",
            "--verify",
            "1",
            "--out",
            "out",
            *point.options,
            "failing.py",
        ]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **point.variables}
        ended = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
        )
        return judged(point, folder / "out", ended)


def judged(point: Point, out: Path, ended: subprocess.CompletedProcess[str]) -> str:
    """Return why the run is not what the point asks for, or an empty string."""
    if ended.returncode != point.code:
        return f"exit code {ended.returncode} instead of {point.code}: {' '.join(ended.stderr.split()[-60:])}"
    if missing := [text for text in point.says if text not in " ".join(ended.stderr.split())]:
        return f"it does not say {missing[0]!r}"
    if point.code:
        return ""
    result: dict[str, Any] = json.loads((out / "result.json").read_text())
    repro = (out / "repro.py").read_text()
    if result["level"] != "dynamo":
        return f"reduced at level {result['level']}, not dynamo"
    if point.kind and result["failure"]["kind"] != point.kind:
        return f"the failure is {result['failure']['kind']}, not {point.kind}"
    return next((f"the repro lacks {text!r}" for text in point.repro if text not in repro), "")


def main(names: list[str]) -> int:
    """Check the named points, or all."""
    if unknown := [name for name in names if name not in POINTS]:
        points = "\n  ".join(POINTS)
        print(f"no point is called {unknown[0]!r}. The points:\n  {points}", file=sys.stderr)
        return 2
    # In another process: this one then starts with no device.
    asked = [sys.executable, "-c", "import torch; raise SystemExit(not torch.cuda.is_available())"]
    if subprocess.run(asked, check=False).returncode:
        print("This check needs a CUDA GPU and a torch that can use it.", file=sys.stderr)
        return 2
    failed = 0
    for name in names or list(POINTS):
        try:
            why = run(POINTS[name])
        except subprocess.TimeoutExpired:
            why = f"no end after {TIMEOUT_SECONDS} s"
        failed += bool(why)
        print(f"{name}: {f'FAILED: {why}' if why else 'ok'}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
