r"""Wrong numbers in a rollout: inductor leaves out the clone of a tensor that is moved by a place within itself.

source: https://github.com/pytorch/pytorch/issues/197829
reach: exit 0, 3 ops
shows: clone\(\).*assert_close
hides: linear|layer_norm
"""

import torch
from torch import nn


class Exchange(nn.Module):
    """What the soil takes out of the water at each place, from the amounts and how they change along the way."""

    def __init__(self, substances, width=16):
        super().__init__()
        self.enter, self.norm = nn.Linear(2 * substances, width), nn.LayerNorm(width)
        self.leave = nn.Linear(width, substances)

    def forward(self, water):
        change = torch.cat([water[:1] * 0, water[1:] - water[:-1]])
        x = self.norm(self.enter(torch.cat([water, change], dim=-1)))
        return 0.1 * self.leave(torch.tanh(x))


class Channel(nn.Module):
    """A step in time of a channel of water, which flows one place further."""

    def __init__(self, substances=3):
        super().__init__()
        self.exchange, self.alarm = Exchange(substances), nn.Linear(substances, 1)

    def forward(self, water, source):
        taken = self.exchange(water)
        flow_(water)
        warning = torch.sigmoid(self.alarm(torch.relu(water + taken)))
        return water + taken * source, warning.amax()


def flow_(water):
    """Each place gets what the one before it had; the first keeps what it has."""
    water[1:] = water[:-1].clone()


def main():
    torch.manual_seed(0)
    step = torch.compile(Channel().eval())
    water, source = torch.rand(10, 3), torch.tensor([0.5, 1.0, 0.8])
    with torch.no_grad():
        for minute in range(4):
            water, warning = step(water, source)
            print(minute, round(warning.item(), 4), [round(amount, 3) for amount in water.sum(dim=0).tolist()])


if __name__ == "__main__":
    main()
