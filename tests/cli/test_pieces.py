"""A backend that splits the graph and compiles each piece, as serving engines do; the first size is dynamic."""

import pytest

pytestmark = [pytest.mark.timeout(280), pytest.mark.usefixtures("soak")]

SCRIPT = """
import torch
import minifier_backends.pieces


class Block(torch.nn.Module):
    def __init__(self, size=16):
        super().__init__()
        self.norm, self.qkv = torch.nn.LayerNorm(size), torch.nn.Linear(size, 3 * size)
        self.up, self.down = torch.nn.Linear(size, 2 * size), torch.nn.Linear(2 * size, size)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        x = x + torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None])[0]
        return x + self.down(torch.nn.functional.silu(self.up(self.norm(x))))


torch.manual_seed(0)
model = Block().eval()
x = torch.randn(5, 16)
torch._dynamo.mark_dynamic(x, 0)
with torch.no_grad():
    torch.compile(model, backend="pieces", options={"refuses": "silu"})(x)
"""


def test_a_piece_that_cannot_be_compiled_is_reduced_to_its_op(project):
    done = project.run(SCRIPT, timeout=270)
    assert done.code == 0, done.stderr
    assert done.ops[1] == 1 and done.result["level"] == "dynamo"
    assert "silu(x)" in done.repro and 'backend="pieces"' in done.repro
