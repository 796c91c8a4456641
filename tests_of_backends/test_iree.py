"""IREE's backend, which is found by its entry point, cannot lower some ops, and mistakes the size of double precision:
nothing is planted. Run by `make test-backends`, in an environment of its own."""

import pytest
from minified_run import failing_model, minified

pytestmark = pytest.mark.timeout(500)

I0 = """
def forward(self, x):
    h = torch.relu(self.first(x)) + 1
    h = torch.tanh(self.second(h)) * x
    h = torch.special.i0(h) + h.exp().sum()
    return torch.sigmoid(h) * 2
"""
DOUBLE = """
def forward(self, x):
    h = torch.tanh(self.first(x))
    h = torch.sigmoid(self.second(h)) + x
    energy = (h.double() ** 2).sum(dim=1)
    return torch.softmax(h, dim=1), energy
"""


@pytest.mark.parametrize(
    ("forward", "stage", "kept", "most"),
    [(I0, "compile", "torch.special.i0(x)", 1), (DOUBLE, "run", ".double()", 2)],
    ids=["an op that it cannot lower", "double precision"],
)
def test_an_exception(tmp_path, forward, stage, kept, most):
    result, repro = minified(failing_model(forward, '"turbine_cpu"'), tmp_path)
    assert (result["failure"]["stage"], result["failure"]["kind"]) == (stage, "exception")
    assert result["ops_after"] <= most and (result["verified"]["runs"], result["verified"]["same"]) == (3, 3)
    assert result["backend"]["distribution"] == "iree-turbine"
    assert kept in repro and 'backend="turbine_cpu"' in repro and "sigmoid" not in repro
    assert [line for line in repro.splitlines() if line.startswith(("import", "from"))] == ["import torch"]
