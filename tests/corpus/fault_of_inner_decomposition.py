r"""A decomposition is wrong that another one reads, which the compiler cannot do without.

reach: exit 0, 1 op
shows: gelu
says: at fault  the decomposition of aten\.silu\.default
run: --explain
"""

import torch
from torch._dynamo.backends.common import aot_autograd

aten = torch.ops.aten


def gelu(x, approximate="none"):
    return 0.5 * x * (1 + torch.erf(x * 0.5**0.5)) + aten.silu(x) - x * torch.sigmoid(x)


def compiler(gm, inputs):
    if any(node.target is aten.gelu.default for node in gm.graph.nodes):
        raise NotImplementedError("no gelu")
    return gm.forward


table = {aten.gelu.default: gelu, aten.silu.default: lambda x: x * torch.sigmoid(x) + 1}
lowers = aot_autograd(fw_compiler=compiler, decompositions=table)
with torch.no_grad():
    torch.compile(torch.nn.functional.gelu, backend=lowers)(torch.ones(3))
