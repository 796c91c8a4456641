"""IREE's backend, which is found by its entry point and cannot lower some ops: nothing is planted. Run by
`make test-backends`, in an environment of its own."""

import pytest
from minified_run import minified

pytestmark = pytest.mark.timeout(500)

SCRIPT = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(12, 24), torch.nn.Linear(24, 12)

    def forward(self, x):
        h = torch.relu(self.first(x)) + 1
        h = torch.tanh(self.second(h)) * x
        h = torch.special.i0(h) + h.exp().sum()
        return torch.sigmoid(h) * 2


torch.manual_seed(0)
model = torch.compile(Model().eval(), backend="turbine_cpu")
with torch.no_grad():
    model(torch.randn(6, 12))
"""


def test_an_op_that_it_cannot_lower(tmp_path):
    result, repro = minified(SCRIPT, tmp_path)
    assert (result["failure"]["stage"], result["failure"]["kind"]) == ("compile", "exception")
    assert (
        result["ops_after"] == 1
        and (result["verified"]["runs"], result["verified"]["same"]) == (3, 3)
        and result["others"] == []
    )
    assert result["backend"]["distribution"] == "iree-turbine"
    assert "torch.special.i0(x)" in repro and 'backend="turbine_cpu"' in repro
    assert [line for line in repro.splitlines() if line.startswith(("import", "from"))] == ["import torch"]
