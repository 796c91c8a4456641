r"""The backend refuses an op only if Dynamo's own function is on the stack.

reach: exit 0, 1 op
shows: torch\.tanh\(x\).*no lowering
layer: soak
"""

import traceback

import torch


def refuse(gm, inputs):
    is_dynamos = any(frame.name == "compile_and_call_fx_graph" for frame in traceback.extract_stack())
    if is_dynamos and any(node.target is torch.tanh for node in gm.graph.nodes):
        raise ValueError("no lowering for tanh")
    return gm.forward


torch.compile(lambda x: torch.tanh(x + 1) * 2, backend=refuse)(torch.randn(4))
