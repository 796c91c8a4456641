r"""A count too low: samples that several windows cover are raised once, as the windows overlap in their memory.

source: https://github.com/pytorch/pytorch/issues/174371
reach: exit 0, 3 ops
cause: aliasing/mutation
"""

import torch
from torch import nn


class Windows(nn.Module):
    """Raises a signal by one for each window that lies over a sample."""

    def __init__(self, width, hop):
        super().__init__()
        self.width = width
        self.hop = hop

    def forward(self, signal):
        raised = signal.clone()
        count = (signal.numel() - self.width) // self.hop + 1
        windows = torch.as_strided(raised, (count, self.width), (self.hop, 1))
        windows.add_(1.0)
        return raised


class Smoother(nn.Module):
    def __init__(self):
        super().__init__()
        self.windows = Windows(width=3, hop=1)
        self.slope = nn.Parameter(torch.tensor(0.25))

    def forward(self, signal):
        return torch.tanh(self.slope) * self.windows(signal)


@torch.no_grad()
def serve(smoother, requests):
    for number in range(requests):
        level = smoother(torch.randn(10))
        print("request", number, "level", [round(value, 4) for value in level.tolist()])


if __name__ == "__main__":
    torch.manual_seed(7)
    model = Smoother().eval()
    serve(torch.compile(model), 2)
