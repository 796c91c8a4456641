r"""A backend on AOTAutograd fails where aot_eager fails as well, at a view of an input that is changed.

source: https://github.com/pytorch/pytorch/issues/198095
reach: exit 0, 2 ops
shows: \.view\(
says: at fault  AOTAutograd
layer: soak
"""

import torch
from torch._dynamo.backends.common import aot_autograd


def refusing(gm, inputs):
    return gm.forward


def mine(gm, inputs):
    return aot_autograd(fw_compiler=refusing)(gm, inputs)


def fn(x, y):
    x.add_(x)
    return y.view(-1)


x = torch.ones(2)
torch.compile(fn, backend=mine)(x, x[:1])
