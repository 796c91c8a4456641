"""OpenVINO's backend, which computes some things wrongly: nothing is planted. Run by `make test-backends`, in an
environment of its own."""

import pytest
from minified_run import failing_model, minified

pytestmark = pytest.mark.timeout(500)

QUANTILE = """
def forward(self, x):
    h = torch.relu(self.first(x)) + 1
    h = torch.tanh(self.second(h)) * x
    low = torch.quantile(h, 0.25, dim=1, keepdim=True)
    return torch.sigmoid(h - low) * 2
"""
STATE = """
def forward(self, x, mean):
    h = torch.relu(self.first(x)) + 1
    mean.mul_(0.9).add_(x.mean(dim=0) * 0.1)
    return self.second(h) - mean
"""
BACKEND = '"openvino", options={"config": {"INFERENCE_PRECISION_HINT": "f32"}}'


@pytest.mark.parametrize(
    ("forward", "inputs", "kept", "most"),
    [
        (QUANTILE, "torch.randn(6, 12)", "torch.quantile(", 1),
        (STATE, "torch.randn(6, 12), torch.zeros(12)", "add_(", 2),
    ],
    ids=["quantile", "state"],
)
def test_a_wrong_result(tmp_path, forward, inputs, kept, most):
    script = failing_model(forward, BACKEND, "import openvino.torch", inputs, sizes=(12, 24))
    result, repro = minified(script, tmp_path)
    assert result["failure"]["kind"] == "wrong-result" and result["ops_after"] <= most
    assert (result["verified"]["runs"], result["verified"]["same"]) == (3, 3)
    assert result["backend"]["distribution"] == "openvino"
    assert "import openvino.torch" in repro and kept in repro and "relu" not in repro
