r"""Wrong numbers: a nearest interpolation resamples a dimension whose size it does not change.

source: https://github.com/pytorch/pytorch/issues/198201
reach: exit 0, 1 op
shows: interpolate\(.*assert_close
"""

import torch
import torch.nn.functional as F
from torch import nn


class StripUpscaler(nn.Module):
    """Widens a strip of an image, with a learned sharpening afterwards."""

    def __init__(self, channels=4):
        super().__init__()
        self.before = nn.Conv2d(1, channels, 3, padding=1)
        self.norm = nn.GroupNorm(2, channels)
        self.after = nn.Conv2d(channels, 1, 3, padding=1)

    def forward(self, strip):
        features = F.silu(self.norm(self.before(strip)))
        wide = F.interpolate(features, scale_factor=(1.3, 1.5), mode="nearest")
        return self.after(wide).clamp(-3, 3)


torch.manual_seed(0)
model = StripUpscaler().eval()
compiled = torch.compile(model)
with torch.no_grad():
    for width in (4, 6):
        strip = torch.randn(1, 1, 3, width)
        torch.testing.assert_close(compiled(strip), model(strip))
        print(width, "agrees")
