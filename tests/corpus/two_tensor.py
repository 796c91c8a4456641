r"""A graph of a tensor subclass cannot be written down, so the program itself is reduced.

reach: exit 0, 3 statements
shows: backend="oddlib_tanh"
hides: TwoTensor|shape_of
says: TwoTensor
layer: soak
"""

import oddlib
import torch
from torch.testing._internal.two_tensor import TwoTensor


def shape_of(x):
    return x.shape


made = TwoTensor(torch.ones(2), torch.ones(2))
print(shape_of(made))
torch.compile(lambda x: torch.tanh(x.sin()) * 2, backend="oddlib_tanh")(made)
