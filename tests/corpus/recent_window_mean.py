r"""Wrong predictions: the bounded deque of recent states keeps one entry too many while the step is traced.

source: https://github.com/pytorch/pytorch/pull/138194
reach: exit 0, 11 statements
cause: tracing
"""

import collections

import torch
from torch import nn


class WindowedEncoder(nn.Module):
    """Encodes a frame and averages it with the last few ones."""

    def __init__(self, channels, window):
        super().__init__()
        self.project = nn.Linear(channels, 12)
        self.norm = nn.LayerNorm(12)
        self.recent = collections.deque(maxlen=window)

    def forward(self, frame):
        state = torch.tanh(self.norm(self.project(frame)))
        self.recent.append(state)
        return sum(self.recent)


class Stream:
    def __init__(self, seed):
        self.generator = torch.Generator().manual_seed(seed)

    def __iter__(self):
        for _ in range(7):
            yield torch.randn(2, 5, generator=self.generator)


def serve():
    torch.manual_seed(4)
    encoder = WindowedEncoder(5, window=3).eval()
    head = nn.Linear(12, 1)
    encoder.compile(backend="eager")
    with torch.no_grad():
        for number, frame in enumerate(Stream(9)):
            score = head(encoder(frame)).mean()
            print(f"frame {number}: score {score.item():.4f}")


if __name__ == "__main__":
    serve()
