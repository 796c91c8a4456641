"""What a person sees of whole runs, on a terminal or in a pipe: tests/goldens/runs, which --update-goldens writes."""

from __future__ import annotations

import re

import pytest
from layers import SOAK
from screens import in_a_terminal, without_figures, without_lines_after_silence

pytestmark = pytest.mark.timeout(300)

_BACKEND = """
import torch


def {name}(gm, inputs):
    names = [str(node.target) for node in gm.graph.nodes]
{body}


def model(x):
    x = x.sin()
    torch._dynamo.graph_break()
    return {result}


print("before", flush=True)
try:
    torch.compile(model, backend={name})(torch.ones(4))
{then}
"""
_REFUSES = """\
    if any("tanh" in name for name in names):
        raise NotImplementedError("no lowering for tanh")
    return gm"""
_INEXACT = "(x.cos() + 1).tanh().exp()"
_EXACT = "(x.floor() + 1).round().abs()"  # eager has no rounding error, whose digits depend on the processor
_WRONG = """\
    is_wrong = any("round" in name for name in names)
    return lambda *args: tuple(each + 1 if is_wrong else each for each in gm(*args))"""
_ENDS = (
    "    print('after')\nexcept NotImplementedError:\n    raise SystemExit(3)\nexcept Exception:\n    print('caught')"
)
_NEEDS_STATE = """
import torch
import acme

acme.devices.append("acme:0")
print("before")
try:
    torch.compile(lambda x: x.sin().tanh() + 1, backend=acme.acme)(torch.ones(4))
except Exception:
    print("caught")
"""
_ACME = """
devices = []


def acme(gm, inputs):
    if not devices:
        raise RuntimeError("no lowering: there is no device")
    raise RuntimeError("no lowering for tanh on acme:0")
"""
_SCRIPTS = {
    "refuses": _BACKEND.format(name="acme", body=_REFUSES, result=_INEXACT, then=_ENDS),
    "wrong": _BACKEND.format(name="acme", body=_WRONG, result=_EXACT, then=_ENDS),
    "passes": _BACKEND.format(name="acme", body="    return gm", result=_INEXACT, then=_ENDS),
    "needs-state": _NEEDS_STATE,
}
_MEDIA = {"100x30": (100, 30), "60x20": (60, 20), "pipe": None}
_RUNS = [
    ("refuses", "100x30"),
    pytest.param("wrong", "60x20", marks=SOAK),
    ("passes", "pipe"),
    pytest.param("needs-state", "pipe", marks=SOAK),
]


def normalised(text: str, project) -> str:
    """The text without what varies between runs and machines: times, probes, versions, paths."""
    text = without_figures(without_lines_after_silence(text.replace(str(project.folder), "FOLDER")))
    for pattern, general in ((r"torch \d+\.\d+\.\d+\S*", "torch VERSION"), (r"0x[0-9a-f]+", "ADDRESS")):
        text = re.sub(pattern, general, text)
    return text.rstrip() + "\n"


@pytest.mark.parametrize(("script", "medium"), _RUNS)
def test_a_run(project, golden, script, medium):
    project.write(_ACME, "acme.py")
    project.write(_SCRIPTS[script], f"{script}.py")
    arguments = ["run", "--verify", "2", f"{script}.py"]
    if (size := _MEDIA[medium]) is None:
        done = project.finish(project.start_warm(*arguments), 150)
        said = f"{done.stderr}\n--- standard output ---\n{done.stdout}\n--- exit code {done.code} ---"
    else:
        shown = in_a_terminal(project, *arguments, columns=size[0], lines=size[1])
        said = "\n".join([*shown.scrolled, *shown.rows, f"--- exit code {shown.code} ---"])
    golden(f"runs/{script}-{medium}.txt", normalised(said, project))
