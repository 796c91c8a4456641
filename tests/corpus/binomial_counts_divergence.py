"""Dynamo raises Unsupported: the divergence of two binomial distributions branches on their counts.

source: https://github.com/pytorch/pytorch/issues/194593
reach: exit 0, 7 statements
shows: [Dd]ata-dependent
"""

import torch
from torch import nn
from torch.distributions import Binomial, kl_divergence


class CountModel(nn.Module):
    """Predicts how many of some trials succeed, and stays near a prior."""

    def __init__(self, width=6):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(width, 16), nn.SiLU(), nn.Linear(16, 3))
        self.register_buffer("trials", torch.tensor([10.0, 20.0, 30.0]))
        self.prior = nn.Parameter(torch.zeros(3))

    def forward(self, x, counts):
        logits = self.body(x)
        predicted = Binomial(self.trials, logits=logits, validate_args=False)
        prior = Binomial(self.trials, logits=self.prior, validate_args=False)
        likelihood = predicted.log_prob(counts).sum(dim=-1)
        distance = kl_divergence(predicted, prior).sum(dim=-1)
        return (distance - likelihood).mean()


torch.manual_seed(0)
model = CountModel()
step = torch.compile(model, backend="eager", fullgraph=True)
x, counts = torch.randn(5, 6), torch.tensor([[3.0, 8.0, 11.0]]).expand(5, 3)
loss = step(x, counts)
loss.backward()
print(loss.item())
