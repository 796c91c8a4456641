r"""AOTAutograd cannot trace the backward of a custom op, which calls numpy.

reach: exit 0, 1 op
shows: clips::scaled.*\.numpy\(\) is not supported
"""

import torch


@torch.library.custom_op("clips::scaled", mutates_args=())
def scaled(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@scaled.register_fake
def _(x):
    return torch.empty_like(x)


def backward(ctx, gradient):
    return torch.from_numpy(gradient.numpy() * 2)


scaled.register_autograd(backward)
fn = torch.compile(lambda x: torch.ops.clips.scaled(x.sin()).cos(), backend="aot_eager")
fn(torch.randn(3, requires_grad=True)).sum().backward()
