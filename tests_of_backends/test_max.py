"""MAX's backend, whose errors quote the script: nothing is planted. Run by `make test-backends`, in an environment of
its own."""

import pytest
from minified_run import failing_model, minified

pytestmark = pytest.mark.timeout(900)

FORWARD = """
def forward(self, x):
    h = torch.tanh(self.first(x)) + 1
    h = {op}
    return self.second(h) * 2
"""


@pytest.mark.parametrize(
    ("op", "kept"), [("torch.topk(h, 8).values", "topk("), ("torch.flip(h, (1,))", "flip(")], ids=["topk", "flip"]
)
def test_an_op_that_it_does_not_support(tmp_path, op, kept):
    script = failing_model(FORWARD.format(op=op), "max_backend", "from torch_max_backend import max_backend")
    result, repro = minified(script, tmp_path)
    assert result["failure"]["type"].endswith("MaxCompilerError") and result["level"] == "dynamo"
    assert result["ops_after"] <= 2 and (result["verified"]["runs"], result["verified"]["same"]) == (3, 3)
    assert "max_backend" in repro and kept in repro and "tanh" not in repro
