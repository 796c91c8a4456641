r"""A phase of zero: a complex minus zero that is written in the compiled function has lost its sign.

source: https://github.com/pytorch/pytorch/issues/197586
reach: exit 0, 8 statements
cause: tracing
"""

import torch
from torch import nn


class Phases(nn.Module):
    """The phases of a spectrum whose constant part is silenced, on the negative side."""

    def __init__(self, bins):
        super().__init__()
        self.gain = nn.Parameter(torch.rand(bins) + 0.5)

    def forward(self, spectrum):
        spectrum = spectrum * self.gain
        spectrum[0] = complex(-0.0, 0.0)
        return torch.angle(spectrum)


class Analyser:
    def __init__(self, size):
        self.size = size
        self.phases = Phases(size // 2 + 1)
        self.run = torch.compile(self.phases)

    @torch.no_grad()
    def turn(self, signal):
        """How far the phases turn from bin to bin."""
        phases = self.run(torch.fft.rfft(signal))
        return phases.diff().abs().sum().item()


def main():
    torch.manual_seed(60)
    analyser = Analyser(8)
    for number in range(3):
        print("signal", number, "turn", round(analyser.turn(torch.randn(8)), 4))


if __name__ == "__main__":
    main()
