"""IREE's backend, which is found by its entry point and cannot lower some ops: nothing is planted. Run by
`make test-backends`, in an environment of its own."""

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


def test_an_op_that_it_cannot_lower(tmp_path):
    result, repro = minified(failing_model(I0, '"turbine_cpu"'), tmp_path)
    assert (result["failure"]["stage"], result["failure"]["kind"]) == ("compile", "exception")
    assert (
        result["ops_after"] == 1
        and (result["verified"]["runs"], result["verified"]["same"]) == (3, 3)
        and result["others"] == []
    )
    assert result["backend"]["distribution"] == "iree-turbine"
    assert "torch.special.i0(x)" in repro and 'backend="turbine_cpu"' in repro
    assert [line for line in repro.splitlines() if line.startswith(("import", "from"))] == ["import torch"]
