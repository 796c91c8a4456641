"""Failures that come and go, with the chances dealt: each probe fails or passes by a plan in a file."""

import random

import pytest
from vocabulary import source_of

pytestmark = pytest.mark.timeout(120)

OFTEN = "".join(random.Random(1).choices("PF", k=2000))  # half of the time
SELDOM = "".join(random.Random(1).choices("PPF", k=2000))

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
        summary, case = bureau.reduce(workers=1)
        assert not summary.error, summary.error
        return case

    return reduce


def ops(case):
    return [node.target for node in case.graph.ops]


def test_a_failure_of_every_call_is_taken_for_what_it_is(reduced):
    case = reduced("F", "FF")
    assert (ops(case), case.calls, case.rate) == (["torch.tanh"], 1, 1)


@pytest.mark.parametrize(
    "in_probes",
    [
        pytest.param("PPF" + OFTEN, id="missed by the first tries of one call"),
        pytest.param("PPP" + "PF" + OFTEN, id="missed by all tries of one call, met at the second"),
        pytest.param("PPP" + "PP" + "PPPF" * 2 + OFTEN, id="missed by all tries of fewer calls"),
        pytest.param("FPF" + OFTEN, id="met by the first try of one call"),
    ],
)
def test_a_failure_that_came_late_by_chance_needs_one_call(reduced, in_probes):
    case = reduced("PPPF", in_probes)
    assert (ops(case), case.calls) == (["torch.tanh"], 1)
    assert 0.3 < case.rate < 0.7


def test_ops_left_by_chance_are_taken_out_once_chance_is_seen(reduced):
    # The check sees it twice, and every candidate of the search passes but the whole graph.
    case = reduced("F", "FF" + "P" * 12 + OFTEN)
    assert (ops(case), case.calls) == (["torch.tanh"], 1)
    assert 0.3 < case.rate < 0.7


def test_a_rate_that_was_believed_too_high_is_corrected(reduced):
    # 23 of 24 tries of the whole graph fail; then every third one.
    case = reduced("F", "FP" + "F" * 22 + "PPPPPP" + SELDOM)
    assert ops(case) == ["torch.tanh"]
    assert case.rate < 0.6
