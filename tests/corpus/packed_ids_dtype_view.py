r"""Wrong numbers: what an input gives through a view of another dtype is read after a later change of the input.

source: https://github.com/pytorch/pytorch/issues/198101
reach: exit 0, 5 ops
shows: view\(.*assert_close
"""

import torch
from torch import nn


class IdMixer(nn.Module):
    """Hashes 64-bit ids by halves, and marks the ids that it has seen in the table of the caller."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.score = nn.Sequential(nn.Linear(width, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, width))

    def forward(self, ids, features):
        weights = torch.softmax(self.score(features), dim=-1)
        halves = ids.view(torch.int32) * 2
        halves.sub_(-4)
        ids[:, 2:5] = 2
        return halves.view(torch.int64), weights


torch.manual_seed(0)
model = IdMixer(6).eval()
compiled = torch.compile(model)
with torch.no_grad():
    features = torch.randn(4, 6)
    ids = torch.arange(-12, 12).reshape(4, 6)
    torch.testing.assert_close(compiled(ids.clone(), features), model(ids.clone(), features))
print("agrees")
