"""Thunder, which needs a patch of torch that the script imports for its effect: nothing is planted. Run by
`make test-backends`, in an environment of its own."""

import shutil
from pathlib import Path

import pytest
from minified_run import minified

pytestmark = pytest.mark.timeout(900)

HEAD = """
import thunder_compat  # noqa: F401
import torch
from thunder.dynamo import ThunderCompiler


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(6, 8), torch.nn.Linear(8, 6)
        self.norm = torch.nn.LayerNorm(8)

"""
TAIL = """

torch.manual_seed(0)
model = torch.compile(Model().eval(), backend=ThunderCompiler())
with torch.no_grad():
    model(torch.randn(4, 6))
"""
MUTATED_VIEW = """
    def forward(self, x):
        h = self.norm(torch.tanh(self.first(x)))
        y = self.second(h) + 1
        y[:, :2].mul_(0.1)
        return y, h.mean()
"""
UNFOLD = """
    def forward(self, x):
        h = torch.relu(self.norm(self.first(x)))
        h = self.second(h).unfold(1, 2, 1)
        return torch.sigmoid(h) * 2
"""


@pytest.mark.parametrize(
    ("body", "kind", "kept", "most"),
    [(MUTATED_VIEW, "AssertionError", "mul_(", 4), (UNFOLD, "NotImplementedError", ".unfold(", 1)],
    ids=["mutated view", "unfold"],
)
def test_an_exception(tmp_path, body, kind, kept, most):
    shutil.copy(Path(__file__).with_name("thunder_compat.py"), tmp_path)
    result, repro = minified(HEAD + body + TAIL, tmp_path)
    assert result["failure"]["type"] == kind and result["level"] == "dynamo"
    assert result["ops_after"] <= most and (result["verified"]["runs"], result["verified"]["same"]) == (3, 3)
    assert repro.startswith("import thunder_compat\n") and kept in repro and "relu" not in repro
