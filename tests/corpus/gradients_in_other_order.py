r"""A backend gives the gradients that there are first: with a frozen layer each is another input's.

reach: exit 0, 2 ops
shows: bw_compiler=backward\)
layer: soak
"""

import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd


def forward(gm, inputs):
    return make_boxed_func(gm.forward)


def backward(gm, inputs):
    returned = list(gm.graph.output_node().args[0])
    live = [place for place, node in enumerate(returned) if node is not None]

    def run(*args):
        results = gm.forward(*args)
        return [results[place] for place in live] + [None] * (len(returned) - len(live))

    return make_boxed_func(run)


trains = aot_autograd(fw_compiler=forward, bw_compiler=backward)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.norm, self.head = torch.nn.Linear(6, 4), torch.nn.LayerNorm(4), torch.nn.Linear(4, 3)
        self.stem.requires_grad_(False)

    def forward(self, x, y):
        hidden = torch.relu(self.norm(torch.tanh(self.stem(x))))
        return torch.nn.functional.cross_entropy(self.head(hidden), y)


torch.compile(Net(), backend=trains)(torch.randn(5, 6), torch.tensor([0, 1, 2, 0, 1])).backward()
