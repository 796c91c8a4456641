"""Composite ops: if the failure needs only some of their parts, these are what is left."""

import pytest
from vocabulary import Bureau

from minifier.emit.repro import Template, write_repro

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

# What the compiler refuses of the decomposed graph, and what the function is in the end.
PARTS = {
    "exp": "return torch.exp(x)",
    "rsqrt": "return torch.rsqrt(x)",
    "erf": "return torch.erf(x)",
    "cos": "return x.cos()",
}


@pytest.mark.parametrize("what", PARTS)
def test_the_part_that_is_to_blame(bureau: Bureau, what):
    bureau.capture(SCRIPT.replace("WHAT", what))
    summary, case = bureau.reduce()
    assert summary.one_minimal and summary.ops_after == 1 and not summary.notes
    assert PARTS[what] in write_repro(case, Template.COMPILE_FUNCTION).text


def test_an_op_that_is_needed_whole_stays(bureau: Bureau):
    call = 'torch.compile(lambda x: F.softmax(x, -1).sin(), backend="picky_softmax")(torch.randn(4, 8))'
    bureau.capture(f"import torch\nimport torch.nn.functional as F\nimport picky\n{call}\n")
    _, case = bureau.reduce()
    assert [node.target for node in case.graph.ops] == ["torch.nn.functional.softmax"]


def test_the_pass_can_be_left_out(bureau: Bureau):
    bureau.capture(SCRIPT.replace("WHAT", "exp"))
    _, case = bureau.reduce(skipped=("parts",))
    assert [node.short_target for node in case.graph.ops] == ["softmax"]
