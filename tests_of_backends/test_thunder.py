"""Thunder, which needs a patch of torch that the script imports for its effect: nothing is planted. Run by
`make test-backends`, in an environment of its own."""

import shutil
from pathlib import Path

import pytest
from minified_run import failing_model, minified

pytestmark = pytest.mark.timeout(900)

IMPORTS = "import thunder_compat  # noqa: F401\nfrom thunder.dynamo import ThunderCompiler"
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
    ("forward", "kind", "kept", "most"),
    [(MUTATED_VIEW, "AssertionError", "mul_(", 4), (UNFOLD, "RuntimeError", ".unfold(", 1)],
    ids=["mutated view", "unfold"],
)
def test_an_exception(tmp_path, forward, kind, kept, most):
    shutil.copy(Path(__file__).with_name("thunder_compat.py"), tmp_path)
    result, repro = minified(failing_model(forward, "ThunderCompiler()", IMPORTS), tmp_path)
    assert result["failure"]["type"] == kind and result["level"] == "dynamo"
    assert result["ops_after"] <= most and (result["verified"]["runs"], result["verified"]["same"]) == (3, 3)
    assert repro.startswith("import thunder_compat\n") and kept in repro and "relu" not in repro
