r"""A backend refuses an autograd.Function.

reach: exit 0, 1 op
shows: torch\.autograd\.Function.*save_for_backward.*\.apply\(
layer: soak
"""

import torch
from strict import strict


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x, scale)
        return torch.tanh(x) * scale**3

    @staticmethod
    def backward(ctx, grad):
        x, scale = ctx.saved_tensors
        return grad * 3 * x, (grad * scale).sum()


def fn(x, scale):
    x = torch.relu(x.sin()) + 1
    return Cube.apply(x, scale).exp().sum()


x = torch.randn(4, requires_grad=True)
torch.compile(fn, backend=strict, options={"words": ["autograd_function"]})(x, torch.randn(())).backward()
