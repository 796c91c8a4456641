r"""Inductor raises AssertionError while it lowers: a list of complex tensors is divided in place at once.

source: https://github.com/pytorch/pytorch/issues/197376
reach: exit 0, 1 op
shows: _foreach_div_\(.*is not an OpOverload
"""

import torch
from torch import nn


class SpectralGain(nn.Module):
    """Turns the phase of two bands, in place, by a quarter."""

    def __init__(self, width=16):
        super().__init__()
        self.inner, self.outer, self.norm = nn.Linear(width, width), nn.Linear(width, width), nn.LayerNorm(width)

    def forward(self, signal, bands):
        hidden = torch.tanh(self.inner(self.norm(signal)))
        spectrum = torch.fft.rfft(hidden).abs()
        torch._foreach_div_(bands, 1j)
        bands = [bands[0] * spectrum[..., :4], bands[1] * spectrum[..., 4:]]
        turned = torch.fft.irfft(torch.cat(bands, dim=-1), n=signal.shape[-1])
        return torch.relu(self.outer(turned)) + signal


torch.manual_seed(0)
model = SpectralGain().eval()
with torch.no_grad():
    bands = [torch.randn(3, 4, dtype=torch.complex64), torch.randn(3, 5, dtype=torch.complex64)]
    print(torch.compile(model)(torch.randn(3, 16), bands).shape)
