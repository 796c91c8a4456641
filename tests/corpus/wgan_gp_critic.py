r"""A gradient penalty raises: the backward pass of a compiled module cannot be differentiated a second time.

reach: exit 0, 7 statements
shows: create_graph=True
hides: conv|group_norm
"""

import torch
from torch import nn
from torch.nn import functional as F


class Halve(nn.Module):
    """A residual block that halves the size of an image."""

    def __init__(self, before, after):
        super().__init__()
        self.norm, self.change = nn.GroupNorm(1, before), nn.Conv2d(before, after, 3, padding=1)
        self.carry = nn.Conv2d(before, after, 1)

    def forward(self, x):
        change = self.change(F.leaky_relu(self.norm(x), 0.2))
        return F.avg_pool2d(change, 2) + self.carry(F.avg_pool2d(x, 2))


class Critic(nn.Module):
    """How real an image looks."""

    def __init__(self, width=6):
        super().__init__()
        self.enter, self.leave = nn.Conv2d(1, width, 3, padding=1), nn.Linear(2 * width, 1)
        self.blocks = nn.Sequential(Halve(width, width), Halve(width, 2 * width))

    def forward(self, image):
        return self.leave(torch.tanh(self.blocks(self.enter(image)).sum(dim=(2, 3))))


def penalty(critic, real, made):
    """How far the slope of the critic is from one, between real images and made ones."""
    share = torch.rand(len(real), 1, 1, 1)
    between = torch.lerp(real, made, share).requires_grad_()
    (slope,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
    return (slope.flatten(1).norm(dim=1) - 1).square().mean()


torch.manual_seed(0)
critic = Critic()
compiled = torch.compile(critic, backend="aot_eager")
loss = penalty(compiled, torch.randn(3, 1, 8, 8), torch.randn(3, 1, 8, 8))
loss.backward()
print("penalty", loss.item(), "slope", critic.enter.weight.grad.norm().item())
