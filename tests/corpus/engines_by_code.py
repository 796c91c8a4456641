r"""A cache of engines whose key is the code of a graph, which is the same for other sizes.

reach: exit 0, 1 op
shows: return x\.mean\(dim=1\)
"""

import torch

ENGINES = {}


def build(gm):
    for node in list(gm.graph.nodes):
        if node.op == "call_method" and node.target == "mean":
            count = node.args[0].meta["example_value"].shape[node.kwargs["dim"]]
            with gm.graph.inserting_before(node):
                total = gm.graph.call_method("sum", node.args, node.kwargs)
                mean = gm.graph.call_function(torch.mul, (total, 1.0 / count))
            node.replace_all_uses_with(mean)
            gm.graph.erase_node(node)
    gm.recompile()
    return gm.forward


def cached(gm, inputs):
    key = gm.code
    if key not in ENGINES:
        ENGINES[key] = build(gm)
    return ENGINES[key]


class Encoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.norm = torch.nn.Embedding(50, 8), torch.nn.LayerNorm(8)
        self.mix, self.head = torch.nn.Linear(8, 8), torch.nn.Linear(8, 3)

    def forward(self, tokens):
        hidden = self.norm(self.embed(tokens))
        hidden = hidden + torch.tanh(self.mix(hidden))
        return self.head(hidden.mean(dim=1)).softmax(-1)


encode = torch.compile(Encoder().eval(), backend=cached, dynamic=False)
with torch.no_grad():
    for length in (8, 12, 20):
        encode(torch.randint(0, 50, (2, length)))
