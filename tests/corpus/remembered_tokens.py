r"""Compiled code remembers the number of tokens of its first call; a mean over another number of them is wrong.

reach: exit 0, 1 op
shows: mean
"""

import torch
import torch.nn.functional as F

qkv, head = torch.nn.Linear(8, 24), torch.nn.Linear(8, 3)


def remembering(gm, inputs):
    has_mean = any(node.target == "mean" for node in gm.graph.nodes)
    sizes = []

    def run(*args):
        sizes.append(max(arg.shape[-2] for arg in args if isinstance(arg, torch.Tensor) and arg.dim() == 3))
        results = gm(*args)
        return [y * (sizes[-1] / sizes[0]) for y in results] if has_mean else results

    return run


def pooled(x):
    q, k, v = qkv(x).chunk(3, -1)
    return head(F.gelu(F.scaled_dot_product_attention(q, k, v)).mean(-2))


torch.manual_seed(0)
model = torch.compile(pooled, backend=remembering, dynamic=True)
with torch.no_grad():
    for tokens in (4, 6):
        print(model(torch.randn(2, tokens, 8)))
