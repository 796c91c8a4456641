r"""For one op the backend makes a symbol of no input, on which Dynamo cannot write a guard.

reach: exit 0, 1 op
shows: torch\.tanh\(x\)
layer: soak
"""

import torch
from torch.fx.experimental.symbolic_shapes import DimDynamic


def lower(gm, inputs):
    if any(node.target is torch.tanh for node in gm.graph.nodes):
        shapes = torch._guards.TracingContext.get().fake_mode.shape_env
        source = torch._dynamo.source.ConstantSource("lower")
        symbol = shapes.create_symbol(5, source, DimDynamic.DYNAMIC)
        bool(shapes.create_symintnode(symbol, hint=5, source=source) % 2 == 1)
    return gm.forward


torch.compile(lambda x: torch.tanh(x + 1) * 2, backend=lower)(torch.randn(4))
