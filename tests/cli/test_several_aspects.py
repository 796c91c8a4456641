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
    ("hard", "result", "sought"),
    [
        ("F.hardtanh", "flipped, y", "dtype"),
        ("torch.tanh", "y.sum(-1)", "values"),  # only an op within the graph is wrong in dtype too
    ],
)
def test_the_op_that_is_wrong_in_dtype_is_found(minify, hard, result, sought):
    done = minify(SCRIPT.replace("HARD", hard).replace("RESULT", result))
    assert done.code == 0 and done.ops[1] == 1, done.stderr
    assert "torch.bitwise_xor(x" in done.repro and "in eager of " in done.repro
    assert done.result["verified"]["control"] == "passed"
    assert f"wrong-result (compare): {sought}" in done.stdout + done.stderr
