"""TVM's backend, which reads what Dynamo notes of its arguments: nothing is planted. Run by `make test-backends`, in an
environment of its own."""

import pytest
from minified_run import failing_model, minified

pytestmark = pytest.mark.timeout(900)

CLAMP = """
def forward(self, x):
    h = torch.tanh(self.first(x))
    margin = h - 0.1
    margin.clamp_(min=0.0)
    return self.second(h + margin)
"""
FLOOR = """
def forward(self, x, cell):
    row = torch.div(cell, 6, rounding_mode="floor")
    return self.second(torch.tanh(self.first(x))) + row
"""


@pytest.mark.parametrize(
    ("forward", "inputs", "kind", "kept"),
    [
        (CLAMP, "torch.randn(4, 6)", "wrong-result", "clamp_("),
        (FLOOR, "torch.randn(4, 6), torch.arange(6)", "exception", "torch.div("),
    ],
    ids=["in-place clamp", "integer division"],
)
def test_a_failure(tmp_path, forward, inputs, kind, kept):
    imports = "from tvm.relax.frontend.torch import relax_dynamo"
    result, repro = minified(failing_model(forward, "relax_dynamo()", imports, inputs), tmp_path)
    assert result["failure"]["kind"] == kind and result["level"] == "dynamo"
    assert result["ops_after"] <= 2 and (result["verified"]["runs"], result["verified"]["same"]) == (3, 3)
    assert "backend=relax_dynamo()" in repro and kept in repro and "tanh" not in repro
