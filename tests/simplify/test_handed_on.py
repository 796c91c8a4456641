"""What higher-order ops hand on to bodies that do not read it is not handed on in the repro."""

import pytest
from vocabulary import Bureau

from minifier.emit.repro import Template, write_repro

pytestmark = pytest.mark.timeout(120)

SCRIPT = """
import torch
from torch.utils.checkpoint import checkpoint
import picky


def branches(p, x, y, w):
    return torch.cond(p, lambda x, y, w: (x @ w + y).cos(), lambda x, y, w: (x @ w - y).sin(), (x, y, w))


def again(p, x, y, w):
    return checkpoint(lambda x, y, w: ((x @ w).sigmoid() * y).cos() + y, x, y, w, use_reentrant=False)


x, y, w = torch.randn(4, 8), torch.randn(4, 8), torch.randn(8, 8)
torch.compile(WHAT, backend="picky_cos_inside", fullgraph=True)(torch.tensor(True), x, y, w)
"""
LEFT = {
    "branches": ("return torch.cond(x, cond_true, cond_false, (y,))", "x = torch.tensor(True)\n"),
    "again": ("return checkpoint(wrap_body, x, use_reentrant=False)", "def wrap_body(a):\n    b = "),
}


@pytest.mark.parametrize("what", LEFT)
def test_operands_that_no_body_reads(bureau: Bureau, what):
    captured = bureau.capture(SCRIPT.replace("WHAT", what))
    assert len(captured.failing) == 1 and not captured.failing[0].unsaved, captured
    summary, case = bureau.reduce()
    assert summary.error == "" and summary.ops_after == 1, summary
    text = write_repro(case, Template.COMPILE_FUNCTION).text
    for line in LEFT[what]:
        assert line in text, text
    assert "= torch.randn(1)\n" in text and "torch.randn(1, 1)" not in text, text
