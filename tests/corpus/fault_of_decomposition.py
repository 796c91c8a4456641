r"""A backend's decomposition computes gelu by its fast approximation, and its compiler cannot do without it.

reach: exit 0, 1 op
shows: gelu\(
says: at fault  the decomposition of aten\.gelu\.default
run: --explain
layer: soak
"""

import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd

GELU = torch.ops.aten.gelu.default


def compiler(gm, inputs):
    if any(node.target is GELU for node in gm.graph.nodes):
        raise NotImplementedError("no gelu")
    return make_boxed_func(gm.forward)


lowers = aot_autograd(
    fw_compiler=compiler, decompositions={GELU: lambda x, approximate="none": x * torch.sigmoid(1.702 * x)}
)
with torch.no_grad():
    print(torch.compile(lambda x: torch.nn.functional.gelu(x.cos() * 3) + 1, backend=lowers)(torch.randn(64)).sum())
