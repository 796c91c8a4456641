r"""A backend refuses a custom op that has a gradient.

reach: exit 0, 1 op
shows: torch\.ops\.shop\.discount
layer: soak
"""

import torch
from strict import strict


@torch.library.custom_op("shop::discount", mutates_args=())
def discount(price: torch.Tensor, rate: float) -> torch.Tensor:
    return price * (1 - rate)


@discount.register_fake
def _(price, rate):
    return torch.empty_like(price)


def backward(ctx, grad):
    return grad * (1 - ctx.rate), None


def setup_context(ctx, inputs, output):
    ctx.rate = inputs[1]


discount.register_autograd(backward, setup_context=setup_context)
fn = torch.compile(
    lambda x: discount(torch.relu(x.sin()), 0.25).exp().sum(), backend=strict, options={"words": ["discount"]}
)
fn(torch.randn(4, requires_grad=True)).backward()
