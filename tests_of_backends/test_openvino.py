"""OpenVINO's backend, which computes some things wrongly: nothing is planted. Run by `make test-backends`, in an
environment of its own."""

import textwrap

import pytest
from minified_run import minified

pytestmark = pytest.mark.timeout(500)

HEAD = """
import torch
import openvino.torch

EXACT = {"config": {"INFERENCE_PRECISION_HINT": "f32"}}


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(12, 24), torch.nn.Linear(24, 12)

"""
QUANTILE = """
    def forward(self, x):
        h = torch.relu(self.first(x)) + 1
        h = torch.tanh(self.second(h)) * x
        low = torch.quantile(h, 0.25, dim=1, keepdim=True)
        return torch.sigmoid(h - low) * 2


torch.manual_seed(0)
model = torch.compile(Model().eval(), backend="openvino", options=EXACT)
with torch.no_grad():
    model(torch.randn(6, 12))
"""
STATE = """
    def forward(self, x, mean):
        h = torch.relu(self.first(x)) + 1
        mean.mul_(0.9).add_(x.mean(dim=0) * 0.1)
        return self.second(h) - mean


torch.manual_seed(0)
model = torch.compile(Model().eval(), backend="openvino", options=EXACT)
mean = torch.zeros(12)
with torch.no_grad():
    model(torch.randn(6, 12), mean)
"""


@pytest.mark.parametrize(
    ("body", "kept", "most"),
    [(QUANTILE, "torch.quantile(", 1), (STATE, "add_(", 2)],
    ids=["quantile", "state"],
)
def test_a_wrong_result(tmp_path, body, kept, most):
    result, repro = minified(textwrap.dedent(HEAD) + body, tmp_path)
    assert result["failure"]["kind"] == "wrong-result" and result["ops_after"] <= most
    assert (result["verified"]["runs"], result["verified"]["same"]) == (3, 3)
    assert result["backend"]["distribution"] == "openvino"
    assert "import openvino.torch" in repro and kept in repro and "relu" not in repro
