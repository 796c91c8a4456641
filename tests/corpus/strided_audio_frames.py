"""Wrong numbers under AOTAutograd: an input changed in place loses its strides, so as_strided reads elsewhere.

source: https://github.com/pytorch/pytorch/issues/133512
reach: exit 0, 3 ops
shows: as_strided
"""

import torch
import torch.nn.functional as F
from torch import nn


class Frames(nn.Module):
    """Every second sample of a recording, shifted in place, cut into overlapping frames by as_strided."""

    def __init__(self, frame=6):
        super().__init__()
        self.norm, self.first, self.second = nn.LayerNorm(frame), nn.Linear(frame, 12), nn.Linear(12, 3)
        self.frame = frame

    def forward(self, samples):
        samples.add_(0.5)
        frames = torch.as_strided(samples, (3, self.frame), (4, 2)).clone()
        hidden = F.gelu(self.first(self.norm(frames)))
        scores = torch.softmax(self.second(hidden), dim=-1)
        loudness = frames.square().mean(dim=-1).sqrt()
        return scores * loudness.unsqueeze(-1)


torch.manual_seed(0)
model = Frames().eval()
recording = torch.randn(40)
with torch.no_grad():
    expected = model(recording.clone()[::2])
    compiled = torch.compile(model, backend="aot_eager")(recording.clone()[::2])
print("eager", expected.sum(dim=-1), "compiled", compiled.sum(dim=-1))
