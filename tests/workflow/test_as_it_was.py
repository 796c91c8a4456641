"""Where the plainest program does not show the failure under torch.compile, the one with the script's values does."""

import pytest

pytestmark = pytest.mark.timeout(200)

SCRIPT = """
import sys
import torch


def called_by_dynamo():
    frame = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "_call_user_compiler":
            return True
        frame = frame.f_back
    return False


def picky(gm, inputs):
    if any("tanh" in str(node.target) for node in gm.graph.nodes):
        traced = any("example_value" in node.meta for node in gm.graph.nodes)
        if inputs[0].numel() > 10 or (traced and not called_by_dynamo()):
            raise ValueError("tanh of many")
    return gm.forward


def fn(x):
    return torch.tanh(x.exp() + 1).sum()


torch.compile(fn, backend=picky)(torch.randn(4, 5))
"""


def test_a_size_that_only_torch_compile_looks_at(minify):
    done = minify(SCRIPT)
    assert done.code == 0, done.stderr
    assert "x = torch.randn(4, 5)\n" in done.repro and "return torch.tanh(x)" in done.repro
    assert done.result["verified"] == {"runs": 1, "same": 1, "control": "passed"} and done.result["ops_after"] == 1
    assert done.result["passes"]["sizes"] == "skipped" and done.result["passes"]["data"] == "fixpoint"
