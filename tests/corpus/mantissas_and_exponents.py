r"""Infinite: mantissas in half precision with exponents in float32 are put together in half precision.

source: https://github.com/pytorch/pytorch/issues/197091
reach: exit 0, 1 op
cause: type promotion
"""

import torch
from torch import nn


class Unpack(nn.Module):
    """Weights that are stored as short mantissas and one exponent for each row."""

    def __init__(self, weight):
        super().__init__()
        mantissa, exponent = torch.frexp(weight)
        largest = exponent.amax(dim=1, keepdim=True)
        self.register_buffer("mantissa", torch.ldexp(mantissa, exponent - largest).half())
        self.register_buffer("exponent", largest.float())

    def forward(self):
        return torch.ldexp(self.mantissa, self.exponent)


def weights(rows, width):
    """Rows of very different sizes."""
    return torch.randn(rows, width) * 10.0 ** torch.arange(rows).mul(3).unsqueeze(1)


def main():
    torch.manual_seed(44)
    unpack = Unpack(weights(3, 6)).eval()
    unpack.compile()
    with torch.no_grad():
        for number in range(2):
            outputs = torch.randn(6) @ unpack().float().T
            print("output", number, [f"{value:.3g}" for value in outputs.tolist()])


if __name__ == "__main__":
    main()
