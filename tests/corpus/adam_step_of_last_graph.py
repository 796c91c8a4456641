r"""Wrong numbers at the third graph: AOTAutograd's cache answers it with the code of the second, for another number.

source: https://github.com/pytorch/pytorch/issues/185382
reach: exit 0, 12 statements
shows: item\(\).*compile
"""

import torch


def step(weight, grad, mean, square, count):
    """A step of Adam, whose counter is a tensor as in an optimizer."""
    count.add_(1)
    mean.mul_(0.9).add_(grad, alpha=0.1)
    square.mul_(0.999).addcmul_(grad, grad, value=0.001)
    n = count.item()
    size = 0.01 / (1 - 0.9**n)
    root = (square.sqrt() / (1 - 0.999**n) ** 0.5).add_(1e-8)
    weight.addcdiv_(mean, root, value=-size)


def fit(start, slope, steps=5):
    """Walk down a parabola."""
    weight = start.clone()
    mean, square = torch.zeros_like(weight), torch.zeros_like(weight)
    count = torch.zeros(())
    for _ in range(steps):
        step(weight, slope * weight, mean, square, count)
    return weight


torch.manual_seed(0)
start, slope = torch.randn(16), torch.rand(16)
expected = fit(start, slope)
actual = torch.compile(fit)(start, slope)
print("largest difference", (actual - expected).abs().max().item())
torch.testing.assert_close(actual, expected)
