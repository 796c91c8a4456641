r"""Mixed up: the signs of a transposed table are laid out row by row, and read in the order of the memory.

source: https://github.com/pytorch/pytorch/issues/198364
reach: exit 0, 2 ops
cause: layout
"""

import torch
from torch import nn


class Packer(nn.Module):
    """Gives gains the signs of a signal, and packs them in the order in which they lie in memory."""

    def __init__(self, channels, taps):
        super().__init__()
        self.gains = nn.Parameter(torch.rand(taps, channels) + 0.1)

    def forward(self, signal):
        signed = torch.copysign(self.gains.mT, signal)
        return torch.as_strided(signed, (signed.numel(),), (1,))


def send(packer, frames):
    sent = []
    with torch.no_grad():
        for _ in range(frames):
            packed = packer(torch.randn(2, 3))
            sent.append(packed[:3].sum().item())
            print("first", [round(value, 4) for value in packed[:3].tolist()])
    return sent


if __name__ == "__main__":
    torch.manual_seed(33)
    model = Packer(2, 3)
    total = sum(send(torch.compile(model), 2))
    print("sent", round(total, 4))
