r"""AOTAutograd raises in the backward pass: vmap over the gradients of a compiled module.

source: https://github.com/pytorch/pytorch/issues/138422
reach: exit 0, 5 statements
shows: vmap
"""

import torch
from torch import nn


class Decoder(nn.Module):
    """From a code to a row of pixels."""

    def __init__(self, code=3, pixels=5):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(code, 16), nn.SiLU(), nn.LayerNorm(16), nn.Linear(16, pixels))

    def forward(self, code):
        return torch.sigmoid(self.layers(code))


def jacobian(function, code):
    """One row a pixel, all rows at once."""
    code = code.detach().requires_grad_()
    image = function(code)

    def row(cotangent):
        return torch.autograd.grad(image, code, cotangent, retain_graph=True)[0]

    return torch.vmap(row)(torch.eye(image.numel()))


torch.manual_seed(0)
decoder = Decoder()
code = torch.randn(3)
print(jacobian(decoder, code).shape)
fast = torch.compile(decoder, backend="aot_eager")
print(jacobian(fast, code).shape)
