r"""Wrong gradient: inductor differentiates the smallest of some angles wrongly, and the training goes on.

reach: exit 0, 2 ops
shows: (atan2.*amin|amin.*atan2).*grad
hides: layer_norm|softmax
"""

import torch
from torch import nn


class Rudder(nn.Module):
    """Rates three courses of a boat, and punishes the sharpest turn to the left among them."""

    def __init__(self, winds=8, width=24, courses=3):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(winds, width), nn.Tanh(), nn.Linear(width, width), nn.LayerNorm(width))
        self.across, self.ahead, self.rate = (nn.Linear(width, courses) for _ in range(3))

    def forward(self, winds, distances):
        x = torch.relu(self.body(winds))
        across, ahead = self.across(x), self.ahead(x)
        turns = torch.atan2(across, ahead.detach())
        sharpest = turns.amin(dim=-1)
        travelled = (self.rate(x).softmax(dim=-1) * distances).sum(dim=-1)
        return travelled.square().mean() + 0.3 * sharpest.square().mean() + 0.01 * ahead.abs().mean()


def slopes(rudder, loss_of, batches):
    """Train on the batches; return the size of one gradient after each step."""
    optimizer = torch.optim.SGD(rudder.parameters(), lr=0.05)
    sizes = []
    for winds, distances in batches:
        optimizer.zero_grad()
        loss_of(winds, distances).backward()
        sizes.append(round(rudder.across.weight.grad.norm().item(), 4))
        optimizer.step()
    return sizes


torch.manual_seed(0)
batches = [(torch.randn(6, 8), torch.rand(6, 3)) for _ in range(2)]
eager, compiled = Rudder(), Rudder()
compiled.load_state_dict(eager.state_dict())
print("eager   ", slopes(eager, eager, batches))
print("compiled", slopes(compiled, torch.compile(compiled), batches))
