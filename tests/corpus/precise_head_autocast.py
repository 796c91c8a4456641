r"""Wrong gradients: a head that leaves autocast is differentiated in bfloat16, as its caller is within autocast.

source: https://github.com/pytorch/pytorch/issues/179804
reach: exit 0, 2 ops
shows: autocast.*(gradient|grad)
"""

import torch
import torch.nn.functional as F
from torch import nn


class PreciseHead(nn.Module):
    """A classifier's head that computes its logits in full precision, whatever surrounds it."""

    def __init__(self, width=64, classes=10):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.weight = nn.Parameter(torch.randn(classes, width) / 8)
        self.scale = nn.Parameter(torch.tensor(2.0))

    def forward(self, hidden):
        with torch.autocast("cpu", enabled=False):
            features = self.norm(hidden.float())
            logits = features @ self.weight.T
            return F.log_softmax(logits * self.scale, dim=-1)


torch.manual_seed(0)
model = PreciseHead()
hidden, labels = torch.randn(32, 64, dtype=torch.bfloat16), torch.randint(0, 10, (32,))
gradients = []
for run in (model, torch.compile(model, backend="aot_eager")):
    model.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        scores = run(hidden)
    F.nll_loss(scores, labels).backward()
    gradients.append(model.weight.grad.clone())
print("largest difference", (gradients[0] - gradients[1]).abs().max().item())
torch.testing.assert_close(gradients[1], gradients[0])
