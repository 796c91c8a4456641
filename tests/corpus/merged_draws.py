r"""A backend merges equal ops, random ones too: two views of a batch get one dropout mask.

reach: exit 0, 4 ops
shows: dropout.*dropout
"""

import torch
import torch.nn.functional as F


def merges(gm, inputs):
    seen = {}
    for node in list(gm.graph.nodes):
        if node.op == "call_function":
            key = str((node.target, node.args, node.kwargs))
            if key in seen:
                node.replace_all_uses_with(seen[key])
                gm.graph.erase_node(node)
            else:
                seen[key] = node
    gm.recompile()
    return gm


@torch.compile(backend=merges)
def views(x, w):
    one, other = F.dropout(x, 0.5, training=True) @ w, F.dropout(x, 0.5, training=True) @ w
    return F.cosine_similarity(one, other, dim=-1)


views(torch.randn(64, 32), torch.randn(32, 16))
