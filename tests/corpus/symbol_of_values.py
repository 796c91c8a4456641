r"""A compiler fails at a size that only a run tells: the ops that make the size stay.

reach: exit 0, 4 ops
shows: capture_dynamic_output_shape_ops.*torch\.nonzero.*torch\.tanh
layer: soak
"""

import oddlib
import torch

torch._dynamo.config.capture_scalar_outputs = True
torch._dynamo.config.capture_dynamic_output_shape_ops = True


def g(x, b):
    x = torch.sin(x)
    z = torch.nonzero(x > 0) * 2
    w = torch.zeros(z.shape[0], 3)
    return torch.cos(x), torch.abs(z), torch.tanh(w)


torch.compile(g, backend="oddlib_aten_unbacked")(torch.ones(4, 16), torch.tensor([3, 9]))
