r"""The wrong side: a float argument of minus zero uses what was compiled for plus zero.

source: https://github.com/pytorch/pytorch/pull/192604
reach: exit 0, 8 statements
cause: tracing
"""

import math

import torch


@torch.compile(backend="eager")
def phase(real, imaginary):
    """The argument of a row of numbers with one imaginary part."""
    return torch.atan2(real * imaginary, real)


class Contour:
    """Goes round the origin; the branch cut is approached from both sides."""

    def __init__(self, radius, points):
        self.radius = radius
        self.reals = -radius * torch.linspace(1.0, 2.0, points).abs()

    def sides(self):
        yield "below", 0.0
        yield "above", -0.0


def winding(contour):
    total = 0.0
    for name, imaginary in contour.sides():
        angles = phase(contour.reals, imaginary)
        print(name, [round(angle, 4) for angle in angles.tolist()])
        total += angles.mean().item() * (1 if name == "above" else -1)
    return total / (2 * math.pi)


print("winding number", round(winding(Contour(0.5, 3))))
