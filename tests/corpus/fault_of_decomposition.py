r"""A backend's decomposition computes gelu by its fast approximation.

reach: exit 0, 1 op
shows: gelu\(
says: at fault  the decomposition of aten\.gelu\.default
run: --explain
layer: soak
"""

import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd

aten = torch.ops.aten
TABLE = {
    aten.silu.default: lambda x: x * torch.sigmoid(x),
    aten.gelu.default: lambda x, approximate="none": x * torch.sigmoid(1.702 * x),
}
lowers = aot_autograd(fw_compiler=lambda gm, inputs: make_boxed_func(gm.forward), decompositions=TABLE)


def f(x):
    return torch.nn.functional.gelu(torch.nn.functional.silu(x).cos() * 3) + 1


with torch.no_grad():
    print(torch.compile(f, backend=lowers)(torch.randn(64)).sum())
