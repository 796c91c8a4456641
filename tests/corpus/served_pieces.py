r"""A backend that splits the graph, as serving engines do, refuses an op in one piece; the first size is dynamic.

reach: exit 0, 1 op
shows: silu\(x\).*backend="pieces"
"""

import minifier_backends.pieces
import torch
import torch.nn.functional as F

qkv, down = torch.nn.Linear(16, 48), torch.nn.Linear(16, 16)


def block(x):
    q, k, v = qkv(F.layer_norm(x, (16,))).chunk(3, -1)
    x = x + F.scaled_dot_product_attention(q[None], k[None], v[None])[0]
    return x + down(F.silu(x))


x = torch.randn(5, 16)
torch._dynamo.mark_dynamic(x, 0)
with torch.no_grad():
    torch.compile(block, backend="pieces", options={"refuses": "silu"})(x)
