r"""Dynamo raises an internal error: a tensor subclass answers for unknown attributes with functions.

reach: exit 0, 7 statements
shows: __getattr__.*Tensor
hides: nn\.Module|LayerNorm
layer: soak
"""

import torch
from torch import nn


class Measured(torch.Tensor):
    """A tensor with a unit, whose conversions are found by their names."""

    def __getattr__(self, name):
        if name.startswith("in_"):
            return lambda factor: self * factor


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.change = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x):
        return x + nn.functional.silu(self.change(self.norm(x)))


class Scales(nn.Module):
    """The weight of a parcel from some sensors, in another unit than they have."""

    def __init__(self, sensors=5, width=12):
        super().__init__()
        self.enter, self.leave = nn.Linear(sensors, width), nn.Linear(width, 1)
        self.first, self.second = Residual(width), Residual(width)

    def forward(self, readings):
        x = self.first(self.enter(readings))
        gain = Measured([0.25, 2.0]).in_grams(torch.full((2,), 1.5))
        x = x * gain.as_subclass(torch.Tensor).mean()
        return self.leave(self.second(x))


torch.manual_seed(0)
scales = Scales().eval()
readings = torch.rand(4, 5)
with torch.no_grad():
    print("eager", scales(readings).shape)
    print("compiled", torch.compile(scales, backend="eager")(readings).shape)
