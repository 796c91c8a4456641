"""What higher-order ops hand on to bodies that do not read it is not handed on in the repro: end to end, once; more in
tests/engine/test_nested.py."""

import pytest
from vocabulary import Bureau

from minifier.emit.repro import Template, write_repro

pytestmark = pytest.mark.timeout(120)

SCRIPT = """
import torch
from torch.utils.checkpoint import checkpoint
import picky


def again(x, y, w):
    return checkpoint(lambda x, y, w: ((x @ w).sigmoid() * y).cos() + y, x, y, w, use_reentrant=False)


x, y, w = torch.randn(4, 8), torch.randn(4, 8), torch.randn(8, 8)
torch.compile(again, backend="picky_cos_inside", fullgraph=True)(x, y, w)
"""


def test_operands_that_no_body_reads(bureau: Bureau):
    captured = bureau.capture(SCRIPT)
    assert len(captured.failing) == 1 and not captured.failing[0].unsaved, captured
    summary, case = bureau.reduce()
    assert summary.ops_after == 1, summary
    text = write_repro(case, Template.COMPILE_FUNCTION).text
    for line in ("return checkpoint(wrap_body, x, use_reentrant=False)", "def wrap_body(a):\n    b = "):
        assert line in text, text
    assert "= torch.randn(1)\n" in text and "torch.randn(1, 1)" not in text, text
