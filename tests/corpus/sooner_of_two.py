r"""A turn to the wrong side: the smaller one of minus zero and zero comes as zero from the generated kernel.

source: https://github.com/pytorch/pytorch/issues/194347
reach: exit 0, 2 ops
cause: kernel codegen
"""

import torch
from torch import nn


class Steering(nn.Module):
    """The direction of the lesser of two moves; the signs of zeros tell left from right."""

    def __init__(self):
        super().__init__()
        self.back = nn.Parameter(torch.tensor(-1.0))

    def forward(self, left, right):
        lesser = torch.minimum(left, right)
        return torch.atan2(lesser, self.back.expand_as(lesser))


def moves(count):
    """Moves to the left and to the right; now and then there is none at all."""
    for number in range(count):
        left, right = -torch.rand(5), torch.rand(5)
        left[number] = -0.0
        right[number] = 0.0
        yield left, right


@torch.no_grad()
def main():
    torch.manual_seed(17)
    steering = torch.compile(Steering().eval())
    total = 0.0
    for left, right in moves(3):
        direction = steering(left, right)
        total += direction.sum().item()
        print("direction", [round(value, 4) for value in direction.tolist()])
    print("total", round(total, 4))


if __name__ == "__main__":
    main()
