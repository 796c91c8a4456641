r"""The wrong place: argmax after pooling a transposed signal reads the signal as if it lay contiguously.

source: https://github.com/pytorch/pytorch/issues/193492
reach: exit 0, 3 ops
cause: layout
"""

import torch
from torch import nn
from torch.nn import functional


class Spectrum(nn.Module):
    def __init__(self, bands):
        super().__init__()
        self.filters = nn.Parameter(torch.randn(bands, 1, 5))

    def forward(self, signal):
        return functional.conv1d(signal.unsqueeze(1), self.filters, padding=2).abs()


@torch.compile
def loudest(by_clip):
    """Where the pooled energy is largest, over bands, clips and halves."""
    pooled = functional.adaptive_avg_pool1d(by_clip.transpose(0, 1), 2)
    return torch.argmax(pooled)


def report(spectrum, clips):
    energy = spectrum(clips)
    place = loudest(energy).item()
    band, rest = divmod(place, 2 * clips.shape[0])
    clip, half = divmod(rest, 2)
    print(f"band {band}, clip {clip}, half {half}")


def main():
    torch.manual_seed(123)
    spectrum = Spectrum(4)
    with torch.no_grad():
        for _ in range(3):
            report(spectrum, torch.randn(4, 6))


if __name__ == "__main__":
    main()
