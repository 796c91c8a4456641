r"""A backend for inference leaves dropout out in training as well.

reach: exit 0, 1 op
shows: dropout
"""

import torch


def folds(gm, inputs):
    for node in gm.graph.find_nodes(op="call_function", target=torch.nn.functional.dropout):
        node.replace_all_uses_with(node.args[0])
        gm.graph.erase_node(node)
    gm.recompile()
    return gm.forward


model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Dropout(0.3), torch.nn.Linear(8, 2))
torch.compile(model, backend=folds)(torch.randn(16, 6)).sum().backward()
