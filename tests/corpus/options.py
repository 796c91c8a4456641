r"""A backend loses a tanh if it is asked to fuse aggressively: the failure needs the option.

reach: exit 0, 1 op
shows: tanh\(.*options=\{.fusion.: .aggressive.\}
hides: conv2d|batch_norm
layer: soak
"""

import oddlib
import torch
from torch import nn


def stage(channels, activation):
    return nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels), activation)


class Denoiser(nn.Module):
    """Estimates the noise in an image and takes it away, in several rounds."""

    def __init__(self, channels=6, depth=18):
        super().__init__()
        self.enter, self.leave = nn.Conv2d(1, channels, 1), nn.Conv2d(channels, 1, 1)
        self.stages = nn.Sequential(*[stage(channels, nn.ReLU()) for _ in range(depth)], stage(channels, nn.Tanh()))

    def forward(self, image):
        return image - self.leave(self.stages(self.enter(image)))


torch.manual_seed(0)
denoiser = torch.compile(Denoiser().eval(), backend="oddlib_options", options={"fusion": "aggressive", "tiles": 4})
with torch.inference_mode():
    print(denoiser(torch.rand(2, 1, 8, 8)).std().item())
