r"""A function makes the backend of options, which note their last graph; its lowering of a clamp of one bound raises.

reach: exit 0, 2 ops
shows: Options\(.*clamp|clamp.*Options\(
layer: soak
"""

import torch
from lowered import Options, backend

options = Options("cpu", tiles=16)


def gate(x):
    gate = (torch.tanh(x @ x.T) @ x + 0.5).clamp(min=0.0)
    return x * gate / (1 + gate.amax(-1, keepdim=True))


torch.compile(gate, backend=backend(options))(torch.randn(4, 6))
