r"""Another precision: what is drawn around a mean in half precision comes as float32, as the deviation is float32.

source: https://github.com/pytorch/pytorch/issues/194547
reach: exit 0, 1 op
cause: type promotion
"""

import torch
from torch import nn
from torch.distributions import Normal


class Pump(nn.Module):
    """Levels with a jitter so small that half precision does not see it."""

    def __init__(self, deviation):
        super().__init__()
        self.register_buffer("deviation", torch.full((3,), deviation))

    def forward(self, level):
        return Normal(level, self.deviation, validate_args=False).sample()


class Tank:
    """Levels as the sensors give them, in half precision."""

    def __init__(self, *levels):
        self.pump = Pump(1e-12)
        self.draw = torch.compile(self.pump)
        self.levels = torch.tensor(levels, dtype=torch.half)

    def after(self, hours):
        """The levels after some hours of which each brings twice as much; the sensors end at 65504."""
        levels = self.levels
        for _ in range(hours):
            levels = self.draw(levels.half()) * 2
        return levels


if __name__ == "__main__":
    torch.manual_seed(5)
    tank = Tank(1000.5, 700.5, 9001.25)
    for hours in (2, 3):
        levels = tank.after(hours)
        print("after", hours, levels.tolist(), "in", levels.nbytes, "bytes")
