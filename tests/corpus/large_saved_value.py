r"""A compiled backward pass raises for a value that it has saved, and that no drawn input has.

The inputs of its graph are those of a second run of the script.

layer: soak
reach: exit 0, 1 op
shows: backward.*the gradient overflows
"""

import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd


def forward(gm, example_inputs):
    return make_boxed_func(gm.forward)


def careful(gm, example_inputs):
    def run(*args):
        if max(value.abs().max() for value in args) > 100:
            raise OverflowError("the gradient overflows")
        return gm.forward(*args)

    return make_boxed_func(run)


backend = aot_autograd(fw_compiler=forward, bw_compiler=careful)


@torch.compile(backend=backend)
def energy(x, scale):
    return (x.tanh() + scale * scale * x).sum()


x = torch.randn(4, requires_grad=True)
scale = torch.full((4,), 500.0, requires_grad=True)
energy(x, scale).backward()
