r"""Gaps filled: a soft shrinkage in the generated kernel makes zeros of the NaNs that mark missing samples.

source: https://github.com/pytorch/pytorch/pull/138421
reach: exit 0, 1 op
cause: decomposition
"""

import torch
from torch import nn
from torch.nn import functional


class Denoiser(nn.Module):
    """Shrinks the detail of a signal; gaps (NaN) pass through and are counted at the end."""

    def __init__(self, threshold):
        super().__init__()
        self.threshold = threshold
        self.gain = nn.Parameter(torch.tensor(1.1))

    def forward(self, signal):
        detail = signal[:, 1:] - signal[:, :-1]
        return self.gain * functional.softshrink(detail, self.threshold)


def recordings(count):
    for number in range(count):
        signal = torch.randn(3, 20).cumsum(dim=1)
        signal[number % 3, 4 + number : 7 + number] = float("nan")
        yield signal


def main():
    torch.manual_seed(40)
    denoiser = Denoiser(0.6).eval()
    run = torch.compile(denoiser)
    missing = 0
    with torch.no_grad():
        for signal in recordings(4):
            detail = run(signal)
            missing += int(detail.isnan().sum())
            print("energy", round(detail.nan_to_num().square().sum().item(), 4))
    print("missing", missing)


if __name__ == "__main__":
    main()
