r"""A backend is an object, which works if it is made with another argument.

reach: exit 0, 1 op
shows: Careful
says: avoid     made = Careful\(fast=False, level=2\)  # tested on the repro
run: --explain
"""

import torch


class Careful:
    def __init__(self, fast, level):
        self.fast, self.level = fast, level

    def __call__(self, gm, inputs):
        for node in gm.graph.nodes:
            if self.fast and self.level > 1 and node.target == "tanh":
                raise RuntimeError("no fast tanh on this machine")
        return gm.forward


made = Careful(fast=True, level=2)
print(torch.compile(lambda x: x.tanh().sin(), backend=made)(torch.ones(3)))
