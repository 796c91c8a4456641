"""The table of real failures tells what was reached, and the scripts say what is to be reached."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"
SCRIPTS = sorted((BENCHMARKS / "real").glob("*.py"))
HEAD = '"""The backend knows no cosine.\n\nsource: https://example.com/1\nreach: exit 0, 1 op\nshows: cos\n"""\n'
BACKEND = """
import torch
from torch._dynamo import register_backend


@register_backend
def no_cosine(gm, inputs):
    if any(getattr(node.target, "__name__", "") == "cos" for node in gm.graph.nodes):
        raise RuntimeError("no cosine")
    return gm.forward
"""
CALL = "\ntorch.compile(lambda x: torch.cos(x.sin() * 2).relu(), backend='no_cosine')(torch.ones(3))\n"


@pytest.fixture
def real(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("real")


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_each_script_says_what_is_to_be_reached(real, path):
    case = real.Real.read(path)
    assert case.what and case.source.startswith("https://") and case.shows


@pytest.mark.parametrize("missing", ["source: ", "reach: ", "shows: "])
def test_a_script_that_does_not_is_named(real, tmp_path, missing):
    path = tmp_path / "case.py"
    path.write_text(HEAD.replace(missing, "other: "))
    with pytest.raises(click.ClickException, match=r"case\.py: its docstring lacks"):
        real.Real.read(path)


@pytest.mark.parametrize(
    ("changed", "is_reached"),
    [
        ({}, True),
        ({"exit": 4}, False),
        ({"size": 2}, False),
        ({"size": None}, False),
        ({"control": "failed"}, False),
        ({"repro": "torch.sin(x)"}, False),
    ],
)
def test_only_the_right_failure_in_as_few_ops_is_reached(real, tmp_path, changed, is_reached):
    path = tmp_path / "case.py"
    path.write_text(HEAD)
    facts = {"exit": 0, "size": 1, "repro": "torch.cos(x)\n", "probes": 3, "control": "passed", "times": 2.0}
    row = real.Reached(real.Real.read(path), **{**facts, **changed})
    assert row.is_reached is is_reached
    assert row.row().endswith("| yes |" if is_reached else "| **no** |")


def test_without_a_size_the_exit_code_is_all(real, tmp_path):
    path = tmp_path / "case.py"
    path.write_text(HEAD.replace("exit 0, 1 op", "exit 1"))
    case = real.Real.read(path)
    assert real.Reached(case, 1, None, "", None, "", 1.0).is_reached
    assert not real.Reached(case, 4, None, "", None, "", 1.0).is_reached


@pytest.mark.timeout(150)
def test_a_script_is_run_from_end_to_end(tmp_path, soak):
    (tmp_path / "case.py").write_text(HEAD + BACKEND + CALL)
    done = subprocess.run(
        [sys.executable, BENCHMARKS / "real.py", "case.py"],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        cwd=tmp_path, capture_output=True, text=True, timeout=140, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    row, total = done.stdout.splitlines()
    assert row.startswith("| [case](https://example.com/1) | The backend knows no cosine. | exit 0, 1 op | 0 | 1 |")
    assert row.endswith("| passed | " + row.split(" | ")[-2] + " | yes |") and total == "1 of 1 reached."
