"""TVM's backend, which reads what Dynamo notes of its arguments: nothing is planted. Run by `make test-backends`, in an
environment of its own."""

import pytest
from minified_run import minified

pytestmark = pytest.mark.timeout(900)

HEAD = """
import torch
from tvm.relax.frontend.torch import relax_dynamo


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(6, 8), torch.nn.Linear(8, 6)

"""
CLAMP = """
    def forward(self, x):
        h = torch.tanh(self.first(x))
        margin = h - 0.1
        margin.clamp_(min=0.0)
        return self.second(h + margin)


torch.manual_seed(0)
model = torch.compile(Model().eval(), backend=relax_dynamo())
with torch.no_grad():
    model(torch.randn(4, 6))
"""
FLOOR = """
    def forward(self, x, cell):
        row = torch.div(cell, 6, rounding_mode="floor")
        return self.second(torch.tanh(self.first(x))) + row


torch.manual_seed(0)
model = torch.compile(Model().eval(), backend=relax_dynamo())
with torch.no_grad():
    model(torch.randn(4, 6), torch.arange(6))
"""


@pytest.mark.parametrize(
    ("body", "kind", "kept"),
    [(CLAMP, "wrong-result", "clamp_("), (FLOOR, "exception", "torch.div(")],
    ids=["in-place clamp", "integer division"],
)
def test_a_failure(tmp_path, body, kind, kept):
    result, repro = minified(HEAD + body, tmp_path)
    assert result["failure"]["kind"] == kind and result["level"] == "dynamo"
    assert result["ops_after"] <= 2 and (result["verified"]["runs"], result["verified"]["same"]) == (3, 3)
    assert "backend=relax_dynamo()" in repro and kept in repro and "tanh" not in repro
