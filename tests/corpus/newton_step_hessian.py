"""Wrong numbers under AOTAutograd: the second derivatives that torch.autograd.functional.hessian finds are zeros.

source: https://github.com/pytorch/pytorch/issues/181581
reach: exit 0, 10 statements
shows: hessian
"""

import torch
import torch.nn.functional as F
from torch import nn


class NewtonStep(nn.Module):
    """One damped Newton step on a smooth loss."""

    def __init__(self, width=4):
        super().__init__()
        self.target = nn.Parameter(torch.linspace(-1, 1, width), requires_grad=False)

    def loss(self, x):
        hidden = x.sin() * x.pow(2) + F.softplus(x)
        return (hidden - self.target).square().mean() + 0.1 * x.square().sum()

    def forward(self, x):
        curvature = torch.autograd.functional.hessian(self.loss, x)
        damped = curvature + 0.5 * torch.eye(x.shape[0])
        step = torch.linalg.solve(damped, x - self.target)
        return x - torch.tanh(step), curvature


torch.manual_seed(0)
model = NewtonStep()
x = torch.randn(4)
expected, compiled = model(x), torch.compile(model, backend="aot_eager")(x)
print("eager", expected[1].diagonal(), "compiled", compiled[1].diagonal())
torch.testing.assert_close(compiled[1], expected[1])
