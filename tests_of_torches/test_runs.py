"""Twelve whole runs, one for each kind of failure, with the torch that is installed. Run by `make torches` for several
releases, each in an environment of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
from minified_run import minified_in

pytestmark = pytest.mark.timeout(500)

SAMPLES = Path(__file__).parent.parent / "samples"


def minified(folder: Path, *arguments: str) -> tuple[dict[str, Any], str]:
    """(result.json, the repro) of `minify run ARGUMENTS...` in this folder."""
    result, repro = minified_in(folder, "--verify", "1", *arguments)
    assert result["verified"] == {"runs": 1, "same": 1, "control": "passed"}, repro
    return result, repro


@pytest.mark.parametrize(
    ("sample", "kind", "options"),
    [
        ("failing", "exception", ()),
        ("fault_raise_at_run", "exception", ()),
        ("fault_segfault", "signal", ()),
        ("fault_hang_at_run", "timeout", ("--timeout", "10")),
        ("fault_wrong_value", "wrong-result", ()),
        ("fault_backward", "exception", ()),
        ("fault_dynamic", "exception", ()),
        ("fault_second_call", "exception", ()),
    ],
)
def test_a_sample_is_reduced_to_one_op(tmp_path, sample, kind, options):
    for name in (sample, "small_model"):
        shutil.copy(SAMPLES / f"{name}.py", tmp_path)
    result, repro = minified(tmp_path, *options, f"{sample}.py")
    assert result["failure"]["kind"] == kind and result["ops_after"] == 1, repro


COND = """
    import torch
    from backend import no_gelu


    def big(x):
        return torch.cos(torch.nn.functional.gelu(torch.sin(x) + 1)) * 2


    @torch.compile(backend=no_gelu)
    def step(x):
        x = torch.relu(x) + x.mean()
        return torch.exp(-torch.cond(x.sum() > 0, big, lambda x: x - 1, (x,)))


    step(torch.ones(8))
"""
NO_GELU = """
    import torch


    def no_gelu(gm, inputs):
        for branch in gm.children():
            if any(node.target is torch._C._nn.gelu for node in branch.graph.nodes):
                raise NotImplementedError("no lowering for gelu in a branch")
        return gm.forward
"""


def test_a_branch_of_cond_is_reduced(tmp_path):
    result, repro = in_script(tmp_path, COND, NO_GELU)
    assert result["ops_after"] == 1 and "gelu" in repro and "cond" in repro, repro


INDUCTOR = """
    import torch
    import torch._inductor.config

    torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "compile_error"
    layers = [torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.LayerNorm(8), torch.nn.ReLU(), torch.nn.Linear(8, 2)]
    model = torch.nn.Sequential(*layers).eval()
    with torch.no_grad():
        torch.compile(model)(torch.randn(4, 8))
"""


def test_inductors_own_compile_error_is_reduced(tmp_path):
    result, repro = in_script(tmp_path, INDUCTOR)
    assert result["ops_after"] == 1 and "relu" in repro, repro


SOURCE = """
    import torch


    class Meter:
        def __init__(self):
            self.count = 0

        def update(self, x):
            self.count += 1
            print("count", self.count)
            return x * self.count


    @torch.compile(fullgraph=True, backend="eager")
    def step(x, meter):
        for _ in range(3):
            x = torch.sin(x) + 1
        return torch.relu(meter.update(x)).sum()


    step(torch.randn(8), Meter())
"""


def test_a_script_that_dynamo_refuses_is_reduced(tmp_path):
    result, repro = in_script(tmp_path, SOURCE)
    assert result["level"] == "source" and "print" in repro and "relu" not in repro, repro


EXPORT = """
    import torch


    class Model(torch.nn.Module):
        def forward(self, x):
            return torch.relu(torch.nn.functional.gelu(x + 1) * 2)


    torch.export.save(torch.export.export(Model(), (torch.randn(3, 4),)), "model.pt2")
"""
NO_ATEN_GELU = """
    import torch


    def no_gelu(gm, inputs):
        if any(node.target is torch.ops.aten.gelu.default for node in gm.graph.nodes):
            raise NotImplementedError("no lowering for gelu")
        return gm.forward
"""


def test_an_exported_program_is_reduced(tmp_path):
    (tmp_path / "backend.py").write_text(textwrap.dedent(NO_ATEN_GELU))
    subprocess.run([sys.executable, "-c", textwrap.dedent(EXPORT)], cwd=tmp_path, check=True, timeout=120)
    result, repro = minified(tmp_path, "--backend", "backend:no_gelu", "model.pt2")
    assert result["ops_after"] == 1 and "aten.gelu" in repro, repro


def in_script(folder: Path, text: str, backend: str = "") -> tuple[dict[str, Any], str]:
    """(result.json, the repro) of a script of this text, beside a module `backend` of that text."""
    (folder / "failing.py").write_text(textwrap.dedent(text))
    if backend:
        (folder / "backend.py").write_text(textwrap.dedent(backend))
    return minified(folder, "failing.py")
