r"""SIGFPE while IREE compiles: a matrix product where one size of an operand is zero.

reach: exit 0, 1 op
shows: (matmul|@).*SIGFPE
hides: layer_norm|softmax
says: size of 0
needs: iree
"""

import torch
from torch import nn


class Scene(nn.Module):
    """Names the things on a picture; hints about it may be added by hand, and often there are none."""

    def __init__(self, features=6, width=12, names=3):
        super().__init__()
        self.feature, self.place, self.norm = nn.Linear(features, width), nn.Linear(4, width), nn.LayerNorm(width)
        self.query, self.key, self.name = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, names)

    def forward(self, features, boxes, hints):
        left, top, right, bottom = boxes.unbind(1)
        places = torch.stack([left + right, top + bottom, (right - left).log1p(), (bottom - top).log1p()], dim=1)
        x = self.norm(torch.relu(self.feature(features)) + torch.tanh(self.place(places)))
        hinted = torch.relu(self.feature(hints))
        x = x + 0.05 * (x @ (hinted.t() @ hinted))
        weights = torch.softmax(self.query(x) @ self.key(x).t() * 0.3, dim=-1)
        return torch.softmax(self.name(self.norm(x + weights @ x)), dim=-1)


torch.manual_seed(0)
scene = Scene().eval()
corner = torch.rand(4, 2)
boxes = torch.cat([corner, corner + torch.rand(4, 2)], dim=1)
with torch.no_grad():
    names = torch.compile(scene, backend="iree_turbine")(torch.randn(4, 6), boxes, torch.zeros(0, 6))
print(names.argmax(dim=-1))
