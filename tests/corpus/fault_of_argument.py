r"""A backend works with another value of an argument that the script binds.

reach: exit 0, 1 op
shows: careful
says: avoid     backend=functools\.partial\(careful, fast=False, level=2\)  # tested on the repro
run: --explain
"""

import functools

import torch


def careful(gm, inputs, *, fast=False, level=0):
    for node in gm.graph.nodes:
        if fast and level > 1 and node.target == "tanh":
            raise RuntimeError("no fast tanh on this machine")
    return gm.forward


backend = functools.partial(careful, fast=True, level=2)
print(torch.compile(lambda x: x.tanh().sin(), backend=backend)(torch.ones(3)))
