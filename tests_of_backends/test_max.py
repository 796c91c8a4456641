"""MAX's backend, whose errors quote the script: nothing is planted. Run by `make test-backends`, in an environment of
its own."""

import pytest
from minified_run import minified

pytestmark = pytest.mark.timeout(900)

SCRIPT = """
import torch
from torch_max_backend import max_backend


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(6, 8), torch.nn.Linear(8, 6)

    def forward(self, x):
        h = torch.tanh(self.first(x)) + 1
        h = {op}
        return self.second(h) * 2


torch.manual_seed(0)
model = torch.compile(Model().eval(), backend=max_backend)
with torch.no_grad():
    model(torch.randn(4, 6))
"""


@pytest.mark.parametrize(
    ("op", "kept"), [("torch.topk(h, 8).values", "topk("), ("torch.flip(h, (1,))", "flip(")], ids=["topk", "flip"]
)
def test_an_op_that_it_does_not_support(tmp_path, op, kept):
    result, repro = minified(SCRIPT.format(op=op), tmp_path)
    assert result["failure"]["type"].endswith("MaxCompilerError") and result["level"] == "dynamo"
    assert result["ops_after"] <= 2 and (result["verified"]["runs"], result["verified"]["same"]) == (3, 3)
    assert "max_backend" in repro and kept in repro and "tanh" not in repro
