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


def test_a_script_without_a_graph_is_refused(module):
    with pytest.raises(ValueError, match="no class Repro"):
        module("observing").ops_in_repro("import torch")


def test_imports_are_those_that_torch_does_not_know_of(module, tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import os, a.b\nimport torch\nfrom torch import nn\nfrom c.d import e\nfrom c.d import f\n")
    assert module("observing").imports_of(script) == ("import a.b", "import c.d")


@pytest.mark.parametrize(
    "log, told",
    [
        ("Strategy: x\nFAIL: x\nMade 56 queries\n", (56, False)),
        ("Strategy: x\nFAIL: x\n\nStrategy: y\n", (2, True)),
        ("nothing\n", (None, False)),
    ],
)
def test_queries_are_read_from_the_log(module, log, told):
    assert module("torch_minifier").queries_in(log) == told


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
    assert "cores" in done.stdout
    assert "5 → 1" in done.stdout and "- Exactly the planted ops: met." in done.stdout
    (row,) = json.loads(rows.read_text())["rows"]
    assert (row["case"], row["who"]) == ("small", "minify run")
    assert (row["ops_before"], row["ops_after"], row["ended"]) == (5, 1, "minimal")
    assert row["repro"] == "yes" and row["verified"] and row["elements"] == 1 and row["lines"] < 15
    assert row["sizes"][0] == 5 and row["sizes"][-1] == 1 and len(row["sizes"]) == row["probes"]
    assert 50 < row["mebibytes"] < 4000
    assert row["times"] == pytest.approx(row["seconds"] / json.loads(rows.read_text())["own"]["small"])
    assert sum(row["phases"].values()) == pytest.approx(row["seconds"])


def test_a_script_that_is_not_there_is_named(processes):
    done = subprocess.run(
        [sys.executable, BENCHMARKS / "compare.py", "--cases", "absent.py"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2
    said = " ".join(done.stderr.split()).replace("│ ", "")
    assert "absent.py is neither a script nor one of one_op_100, one_op_315" in said


@pytest.mark.timeout(200)
@pytest.mark.parametrize("part", ["no fork server", "ddmin"])
def test_the_tool_without_one_of_its_ideas_still_finds_it(tmp_path, part, soak):
    arguments = ["--verify", "1", "--passes", "data", "--out", tmp_path / "out", tmp_path / "small.py"]
    done = run_on_small(tmp_path, "ablated.py", part, "run", *arguments, timeout=190)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert (result["ops_before"], result["ops_after"]) == (5, 1) and not result["stopped_because"]


def test_elements_and_lines_of_a_script_of_torchs_are_counted(module):
    text = "def load_args(reader):\n    reader.tensor(buf0, (2, 16), is_leaf=True)\n\n    reader.tensor(buf1, (3,))\n"
    observing = module("observing")
    assert observing.elements_in_repro(text) == 35 and observing.lines_in(text) == 3
    assert observing.elements_in_repro("import torch\n") is None


def test_the_tables_say_what_was_reached(module, tmp_path, soak):
    measuring, results = module("measuring"), module("results")
    ours = measuring.Row("one_op_315", measuring.MINIFY, 8.0, "minimal", 2.1, 9, False, 315, 1, 1, 9, "yes", True)
    theirs = measuring.Row(
        "one_op_315", measuring.TORCH, 200.0, "finished", 50.0, 96, False, 315, 2, 99, 80, "yes", True
    )
    own = {"one_op_315": 4.0}
    assert "| 1/25 |" in results.table([ours, theirs], own) and "| 1.1 |" in results.table([ours], own)
    told = results.targets([ours, theirs])
    assert "median 2.10; at most 2.0: **not met**" in told and "median 25; at least 20: met" in told
    assert "Exactly the planted ops: met" in told and "at most 16 elements: met" in told
    results.picture([measuring.Row("a", "b", 1.0, "c", sizes=(9, 4, 1))], tmp_path / "plot.svg")
    assert "<svg" in (tmp_path / "plot.svg").read_text()
