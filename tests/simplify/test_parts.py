"""Composite ops: if the failure needs only some of their parts, these are what is left."""

import pytest
from vocabulary import Bureau

from minifier.repro.emit.forms import Template
from minifier.repro.emit.repro import write_repro

pytestmark = pytest.mark.timeout(120)

SCRIPT = """
import torch
import torch.nn.functional as F
import partly


def fn(x, y):
    a = F.gelu(F.layer_norm(x, (8,)) + y)
    return F.softmax(a, -1).cos() - F.mse_loss(x, y)


with torch.no_grad():
    torch.compile(fn, backend="partly_WHAT")(torch.randn(4, 8), torch.randn(4, 8))
"""


def test_the_part_that_is_to_blame(bureau: Bureau):
    """With a real compiler that decomposes; other parts are found by tests/engine/test_engine_parts.py."""
    bureau.capture(SCRIPT.replace("WHAT", "rsqrt"))
    summary, case = bureau.reduce()
    assert summary.one_minimal and summary.ops_after == 1 and not summary.notes
    assert "return torch.rsqrt(x)" in write_repro(case, Template.COMPILE_FUNCTION).text
