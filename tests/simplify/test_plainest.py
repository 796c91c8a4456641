"""Backends that each refuse one thing, end to end: captured from a script, probed in children, written as a repro. Many
more of them are called in process by tests/engine/test_refused.py."""

import inspect

import pytest
from layers import sampled
from many_ops import fn
from vocabulary import Bureau

from minifier.data.case import Case
from minifier.repro.emit.repro import Template, write_repro

pytestmark = pytest.mark.timeout(120)

SCRIPT = f"""
import torch
import torch.nn.functional as F
import picky


{inspect.getsource(fn)}

i = torch.randint(0, 20, (5, 3), dtype=torch.int32)
w, b = torch.nn.Parameter(torch.ones(48)), torch.nn.Parameter(torch.zeros(48))
torch.compile(fn, backend="BACKEND")(torch.randn(6, 20, 48), torch.randn(6, 20, 48), i, w, b)
"""

# What is refused, what the repro has between its imports and the call, and what it says that it takes.
PLAINEST = {
    "more_than_ten": ("x = torch.randn(1, 11)\n", ("a size of 11 or more in dimension 1 of `to`",)),
    "strided": ("x = torch.randn(2, 2).t()\n", ("an input that is not contiguous",)),
    "index": (
        "    return torch.nn.functional.embedding(x, y)\n\n\n"
        "x = torch.zeros(1, dtype=torch.int64)\ny = torch.randn(1, 1)\n",
        (),
    ),
    "relu_before_sin": ("    a = x.relu()\n    return a.sin()\n\n\nx = torch.randn(1)\n", ()),
}


@pytest.mark.parametrize("what", sampled(PLAINEST, len(PLAINEST)))
def test_what_is_left(bureau: Bureau, what):
    captured = bureau.capture(SCRIPT.replace("BACKEND", f"picky_{what}"))
    assert len(captured.failing) == 1 and not captured.failing[0].unsaved, captured
    summary, case = bureau.reduce()
    assert summary.one_minimal, summary
    written, needs = PLAINEST[what]
    text = write_repro(case, Template.COMPILE_FUNCTION).text
    assert written in text, text
    assert case.needs == needs and summary.probes["total"] <= 50, summary.probes


def parts(case: Case):
    """All of the Case that a pass may change, and what is told of it."""
    return case.graph, case.inputs, case.state, case.backend, case.needs, case.failure


@pytest.mark.soak
def test_the_answer_is_the_same_for_any_number_of_workers(bureau: Bureau):
    bureau.capture(SCRIPT.replace("BACKEND", "picky_more_than_ten"))
    found = []
    for workers in (1, 4):
        summary, case = bureau.reduce(workers=workers)
        assert summary.one_minimal and not summary.notes
        found.append((parts(case), summary.passes, summary.others))
        (bureau.folder / "out-1").rename(bureau.folder / f"with-{workers}")
    assert found[0] == found[1]
