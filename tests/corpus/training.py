r"""A backend on AOTAutograd cannot compile the backward graph: it has no code for the gradient of a tanh.

reach: exit 0, 1 op
shows: tanh.*no lowering for tanh_backward
hides: layer_norm|linear
layer: test
"""

import oddlib.training
import torch
import torch.nn.functional as F
from torch import nn


class Cell(nn.Module):
    """A residual cell of a regressor; the eighth of them squashes what it adds."""

    def __init__(self, width, squashes):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.squashes = squashes

    def forward(self, x):
        y = self.up(self.norm(x))
        return x + self.down(torch.tanh(y) if self.squashes else F.silu(y))


torch.manual_seed(0)
regressor = nn.Sequential(nn.Linear(5, 16), *[Cell(16, i == 7) for i in range(16)], nn.Linear(16, 1))
compiled = torch.compile(regressor, backend="oddlib_trains")
optimizer = torch.optim.AdamW(regressor.parameters(), lr=1e-3)
points = torch.randn(32, 5)
values = points.sin().sum(dim=-1, keepdim=True)
for epoch in range(3):
    optimizer.zero_grad()
    loss = F.huber_loss(compiled(points), values)
    loss.backward()
    optimizer.step()
    print(epoch, loss.item())
