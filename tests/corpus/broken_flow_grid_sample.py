r"""Wrong numbers under the decompositions: grid_sample at places that are not a number gives zeros.

source: https://github.com/pytorch/pytorch/issues/195579
note: another failure than the thread's, found by trial in the same ops
reach: exit 0, 1 op
shows: grid_sample\(.*assert_close
says: at fault  the decomposition of aten\.grid_sampler_2d\.default
run: --explain
layer: soak
"""

import torch
import torch.nn.functional as F
from torch import nn


class FlowWarp(nn.Module):
    """Warps features along a flow; a flow that divides by zero gives places that are not a number."""

    def __init__(self, width=4):
        super().__init__()
        self.encode, self.refine = nn.Conv2d(1, width, 3, padding=1), nn.Conv2d(width, 1, 1)

    def forward(self, image, flow, confidence):
        hidden = F.relu(self.encode(image))
        hidden = hidden / (1 + hidden.abs().amax())
        grid = torch.tanh(flow / confidence).permute(0, 2, 3, 1)
        warped = F.grid_sample(hidden, grid, align_corners=True)
        return torch.sigmoid(self.refine(warped)) * 2 - image.mean()


torch.manual_seed(0)
model = FlowWarp().eval()
image, flow, confidence = torch.randn(1, 1, 4, 4), torch.randn(1, 2, 4, 4), torch.ones(1, 1, 4, 4)
flow[..., 0, 0], confidence[..., 0, 0] = 0, 0
compiled = torch.compile(model, backend="aot_eager_decomp_partition")
with torch.no_grad():
    print("eager", model(image, flow, confidence)[0, 0, 0], "compiled", compiled(image, flow, confidence)[0, 0, 0])
