r"""Wrong numbers under AOTAutograd: the pseudo-inverse of complex matrices is far from eager's.

reach: exit 0, 1 op
shows: pinv\(.*assert_close
hides: einsum|linear
layer: soak
"""

import torch
from torch import nn


class Mask(nn.Module):
    """Which part of a sound belongs to the voice, for each frequency."""

    def __init__(self, frequencies, width=16):
        super().__init__()
        self.enter, self.norm, self.leave = nn.Linear(frequencies, width), nn.LayerNorm(width), nn.Linear(width, 7)

    def forward(self, loudness):
        return torch.sigmoid(self.leave(torch.relu(self.norm(self.enter(loudness)))))


class Microphones(nn.Module):
    """Steers three microphones towards a voice, away from the noise that surrounds it."""

    def __init__(self, frequencies=7):
        super().__init__()
        self.voice, self.noise = Mask(frequencies), Mask(frequencies)

    @staticmethod
    def spatial(sound, mask):
        masked = sound * mask.unsqueeze(1)
        return torch.einsum("bmtf,bntf->bfmn", masked, masked.conj())

    def forward(self, sound):
        loudness = torch.log1p(sound.abs().mean(dim=1))
        voice = self.spatial(sound, self.voice(loudness))
        noise = self.spatial(sound, self.noise(loudness)) + 0.2 * torch.eye(3)
        weights = torch.linalg.pinv(noise) @ voice
        steered = torch.einsum("bfm,bmtf->btf", weights[..., 0].conj(), sound)
        return torch.log1p(steered.abs())


torch.manual_seed(0)
microphones = Microphones().eval()
sound = torch.randn(2, 3, 20, 7, dtype=torch.complex64)
with torch.no_grad():
    apart = torch.compile(microphones, backend="aot_eager")(sound) - microphones(sound)
print("largest difference", apart.abs().max().item())
raise SystemExit(int(apart.abs().max() > 1e-3))
