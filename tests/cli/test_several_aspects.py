"""A result that is wrong in dtype and in values, next to another op that is wrong only in values."""

import pytest

pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("soak")]

SCRIPT = '''
    import torch
    import torch.nn.functional as F


    class WrongBytes(torch.fx.Interpreter):
        """Computes the exclusive or of bytes in int8, and hardtanh a little off."""

        def call_function(self, target, args, kwargs):
            result = super().call_function(target, args, kwargs)
            if target is torch.bitwise_xor:
                return result.to(torch.int8)
            return result * 1.01 if target is F.hardtanh else result


    def byte_backend(gm, inputs):
        return WrongBytes(gm).run


    class Contrast(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Linear(16, 32), torch.nn.Linear(32, 16)
            self.norm = torch.nn.LayerNorm(16)

        def forward(self, image, mask):
            x = image.float() / 255
            x = F.relu(self.first(x))
            x = HARD(self.second(x))
            x = self.norm(x) + image.float().mean(-1, keepdim=True) / 255
            gate = torch.sigmoid(x) * 0.5 + 0.25
            flipped = torch.bitwise_xor(image, mask)
            light = flipped.float() / 255
            y = light * gate + x.tanh()
            return RESULT


    torch.manual_seed(0)
    image = torch.randint(0, 256, (4, 16), dtype=torch.uint8)
    mask = torch.randint(0, 256, (4, 16), dtype=torch.uint8)
    with torch.no_grad():
        torch.compile(Contrast(), backend=byte_backend)(image, mask)
'''


@pytest.mark.parametrize(
    ("hard", "result"),
    [
        ("F.hardtanh", "flipped, y"),
        ("torch.tanh", "y.sum(-1)"),  # only an op within the graph is wrong in dtype too
    ],
)
def test_the_op_that_is_wrong_in_dtype_and_values_is_found(minify, hard, result):
    done = minify(SCRIPT.replace("HARD", hard).replace("RESULT", result))
    assert done.code == 0 and done.ops[1] == 1, done.stderr
    assert "bitwise_xor" in done.repro and done.result["verified"]["control"] == "passed"


VALUES_BEHIND_A_DTYPE = """
    import torch


    class Wrong(torch.fx.Interpreter):
        def call_function(self, target, args, kwargs):
            result = super().call_function(target, args, kwargs)
            if target is torch.exp:
                return result.double()
            return result + 0.25 if target is torch.relu else result


    def wrong_backend(gm, inputs):
        return Wrong(gm).run


    def fn(x):
        y = torch.relu(torch.sin(x) - 0.5) * 3
        return torch.exp(y)


    x = torch.rand(4, 4)
    out = torch.compile(fn, backend=wrong_backend)(x)
    assert torch.allclose(out.float(), fn(x)), "wrong values"
"""


def test_values_are_sought_where_an_assertion_names_a_dtype_first(minify):
    done = minify(VALUES_BEHIND_A_DTYPE)
    assert done.code == 0 and done.ops[1] == 1, done.stderr
    assert "torch.relu(" in done.repro
