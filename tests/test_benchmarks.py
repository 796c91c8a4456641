"""The comparison reads scripts, tracebacks and logs rightly, and runs a small case from end to end."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"

BACKEND = """\
from torch._dynamo import register_backend


@register_backend
def no_cosine(module, inputs):
    if any(getattr(node.target, "__name__", "") == "cos" for node in module.graph.nodes):
        raise RuntimeError("no cosine before 2031")
    return module.forward
"""

SCRIPT = """\
import torch
import no_cosine_backend

torch.compile(lambda x: (x.sin() * 2 + torch.cos(x)).relu(), backend="no_cosine")(torch.ones(3))
"""

TRACEBACK = """\
something before
Traceback (most recent call last):
  File "a.py", line 1, in f
KeyError: 'inner'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "b.py", line 7, in <module>
    run()
    ^^^^^
torch._dynamo.exc.BackendCompilerFailed: backend='no_cosine' raised:
RuntimeError: no cosine before 2031

Set TORCHDYNAMO_VERBOSE=1 for the internal stack trace
"""

REPRO = """\
from torch.nn import *
class Repro(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer('held', torch.ones(2))

    def forward(self, x):
        held = self.held
        sin = torch.sin(x);  x = None
        mul = sin * held;  held = None
        mul += 1;  add = mul;  mul = None
        getitem = add[0];  sin = None
        return (getitem,)

mod = Repro()
"""


@pytest.fixture
def module(monkeypatch):
    """Imports a module of the benchmarks' folder."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module


def test_the_error_is_the_backends_own_without_numbers(module):
    observing = module("observing")
    assert observing.error_in(TRACEBACK) == observing.Shown("RuntimeError", "no cosine before #")
    assert observing.error_in(TRACEBACK.replace("2031", "1999")) == observing.error_in(TRACEBACK)
    assert observing.error_in("Traceback (most recent call last):\n  File\nValueError\n").type == "ValueError"
    assert observing.error_in("all went well\n") is None


def test_ops_are_counted_without_attributes_and_ends_of_life(module):
    assert module("observing").ops_in_repro(REPRO) == 4  # sin, mul, iadd, getitem


def test_imports_are_those_that_torch_does_not_know_of(module, tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import os, a.b\nimport torch\nfrom torch import nn\nfrom c.d import e\nfrom c.d import f\n")
    assert module("observing").imports_of(script) == ("import a.b", "import c.d")


def run_on_small(folder, program, *arguments, timeout):
    """A program of the benchmarks, with a failing script small.py in the folder that it is run in."""
    (folder / "no_cosine_backend.py").write_text(BACKEND)
    (folder / "small.py").write_text(SCRIPT)
    return subprocess.run(
        [sys.executable, BENCHMARKS / program, *arguments],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


@pytest.mark.timeout(120)
def test_a_small_case_from_end_to_end(tmp_path, soak):
    rows = tmp_path / "rows.json"
    arguments = ["--no-torch", "--runs", "1", "--cases", tmp_path / "small.py", "--json", rows, "--limit", "100"]
    done = run_on_small(tmp_path, "compare.py", *arguments, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
    (row,) = json.loads(rows.read_text())["rows"]
    assert (row["case"], row["who"]) == ("small", "minify run")
    assert (row["ops_before"], row["ops_after"], row["ended"]) == (5, 1, "minimal")
    assert row["repro"] == "yes" and row["verified"] and row["elements"] == 1 and row["lines"] < 15
    assert row["sizes"][0] == 5 and row["sizes"][-1] == 1 and len(row["sizes"]) == row["probes"]
    assert 50 < row["mebibytes"] < 4000
    assert row["times"] == pytest.approx(row["seconds"] / json.loads(rows.read_text())["own"]["small"])
    assert sum(row["phases"].values()) == pytest.approx(row["seconds"])


@pytest.mark.timeout(200)
@pytest.mark.parametrize("part", ["no fork server", "ddmin"])
def test_the_tool_without_one_of_its_ideas_still_finds_it(tmp_path, part, soak):
    arguments = ["--verify", "1", "--passes", "data", "--out", tmp_path / "out", tmp_path / "small.py"]
    done = run_on_small(tmp_path, "ablated.py", part, "run", *arguments, timeout=190)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert (result["ops_before"], result["ops_after"]) == (5, 1) and not result["stopped_because"]
