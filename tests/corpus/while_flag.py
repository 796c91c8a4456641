r"""Dynamo raises: the condition of a while_loop gives one of its inputs back, which counts as aliasing.

reach: exit 0, 5 statements
shows: while_loop.*alias
hides: Softplus|Linear
"""

import torch
from torch import nn
from torch._higher_order_ops.while_loop import while_loop


class Coefficients(nn.Module):
    """The stiffness and the load of some springs, from their measures."""

    def __init__(self, measures=4, width=10):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(measures, width), nn.Softplus(), nn.Linear(width, width), nn.Tanh())
        self.stiffness, self.load = nn.Linear(width, 1), nn.Linear(width, 1)

    def forward(self, measures):
        x = self.body(measures)
        return torch.exp(self.stiffness(x)).squeeze(-1), self.load(x).squeeze(-1)


class Equilibrium(nn.Module):
    """Finds the length at which the force of each spring carries its load, by Newton's method."""

    def __init__(self, coefficients, precision=1e-4):
        super().__init__()
        self.coefficients, self.precision = coefficients, precision

    def forward(self, measures):
        stiffness, load = self.coefficients(measures)

        def error(length):
            return stiffness * length + torch.tanh(length) - load

        def goes_on(unsettled, length):
            return unsettled

        def improve(unsettled, length):
            slope = stiffness + 1 - torch.tanh(length).square()
            length = length - 0.8 * error(length) / slope
            return (error(length).abs() > self.precision).any(), length

        length = torch.zeros_like(load)
        unsettled = (error(length).abs() > self.precision).any()
        return while_loop(goes_on, improve, (unsettled, length))[1]


if __name__ == "__main__":
    torch.manual_seed(0)
    equilibrium = torch.compile(Equilibrium(Coefficients()).eval(), fullgraph=True)
    with torch.no_grad():
        print(equilibrium(torch.randn(7, 4)))
