r"""A backend wants a constant slope, which Dynamo passes in a tensor from the second call on.

reach: exit 0, 1 op
shows: return torch\.nn\.functional\.leaky_relu\(y, x\).*compiled\(0\.1, y\)  # another number
hides: item\(\)
"""

import torch


def constant_slopes(gm, example_inputs):
    for node in gm.graph.find_nodes(op="call_function", target=torch.nn.functional.leaky_relu):
        if not isinstance(node.args[1], float):
            raise NotImplementedError("leaky_relu: the slope is not a constant")
    return gm.forward


@torch.compile(backend=constant_slopes)
def f(x, slope):
    return torch.nn.functional.leaky_relu(torch.sin(x) @ x.t(), slope).sum(1) * 2


for slope in (0.1, 0.2, 0.3):
    f(torch.ones(5, 3), slope)
