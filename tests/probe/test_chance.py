"""Failures that come and go, with the chances dealt: each probe fails or passes by a plan in a file."""

import random

import pytest
from vocabulary import source_of

pytestmark = pytest.mark.timeout(120)

OFTEN = "".join(random.Random(1).choices("PF", k=2000))  # half of the time

SCRIPT = """
import torch
import oddlib.chance

@torch.compile(backend="oddlib_chance", options={{"plan": {plan!r}}})
def fn(x):
    x = (x + 1).cos() * 2
    x = torch.tanh(x.exp() - x)
    return torch.sigmoid(x).sum(-1) / 3

with torch.no_grad():
    for step in range(9):
        fn(torch.ones(2, 4) * step)
"""


@pytest.fixture
def reduced(bureau):
    """`reduced(while_captured, in_probes)`: the minimal Case of a script that fails by these plans."""

    def reduce(while_captured, in_probes):
        plan = bureau.folder / "plan"
        plan.write_text(while_captured + "PP")
        bureau.capture(source_of(SCRIPT).format(plan=str(plan)))
        plan.write_text(in_probes)
        _summary, case = bureau.reduce(workers=1)
        return case

    return reduce


def ops(case):
    return [node.target for node in case.graph.ops]


def test_a_failure_that_came_late_by_chance_needs_one_call(reduced):
    """Missed by all tries of fewer calls. Other chances are dealt in process by tests/engine/test_flaky.py."""
    case = reduced("PPPF", "PPP" + "PP" + "PPPF" * 2 + OFTEN)
    assert (ops(case), case.calls) == (["torch.tanh"], 1)
    assert 0.3 < case.rate < 0.7
