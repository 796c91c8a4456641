"""Failures that take more than the elements of the inputs: the storage around them, or memory that they share."""

import pytest

pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("soak")]

LAYERS = """
    import torch
    from torch import nn


    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.mix = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 6))
            self.norm = nn.LayerNorm(6)

        def features(self, x):
            return torch.tanh(self.mix(self.norm(x)))
"""
BEYOND = (
    LAYERS
    + """
        def forward(self, part, x):
            change = self.features(x)
            part.as_strided((6,), (1,), 9).mul_(change)
            return change.softmax(-1) * change.mean()


    torch.manual_seed(0)
    with torch.no_grad():
        torch.compile(Model(), backend="aot_eager")(torch.arange(40.0)[3:9], torch.randn(6))
"""
)
SHARED = (
    LAYERS
    + """
        def forward(self, whole, rows, x):
            change = self.features(x)
            whole.mul_(change)
            return rows.reshape(-1), change.sum(0).softmax(-1)


    torch.manual_seed(0)
    whole = torch.randn(5, 6)
    with torch.no_grad():
        torch.compile(Model(), backend="aot_eager")(whole, whole[2:], torch.randn(5, 6))
"""
)


@pytest.mark.parametrize(("script", "line"), [(BEYOND, "as_strided("), (SHARED, "y = x[")], ids=["beyond", "shared"])
def test_two_ops_are_left_at_the_level_of_the_graph(minify, script, line):
    done = minify(script)
    assert done.code == 0 and done.ops[1] == 2, done.stderr
    assert line in done.repro and "safetensors" not in done.repro, done.repro
    assert done.result["verified"]["control"] == "passed"
