"""AOTAutograd raises while compiling: overlapping windows of an unfold are changed in place.

source: https://github.com/pytorch/pytorch/issues/183888
reach: exit 0, 2 ops
shows: unfold.*abs_
"""

import torch
from torch import nn


class WindowedEnergy(nn.Module):
    def __init__(self, width=10):
        super().__init__()
        self.project, self.norm = nn.Linear(width, width), nn.LayerNorm(width)

    def forward(self, signal):
        output = self.norm(self.project(signal)) * 2
        windows = output.unfold(1, 4, 2)
        windows.abs_()
        return torch.softmax(windows.mean(dim=-1), dim=-1)


torch.manual_seed(0)
with torch.no_grad():
    print(torch.compile(WindowedEnergy().eval(), backend="aot_eager")(torch.randn(3, 10)))
