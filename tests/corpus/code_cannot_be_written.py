r"""A backend returns `gm.forward` of a graph whose code cannot be written: Dynamo raises after it has returned.

reach: exit 0, 1 op
shows: functools\.partial
layer: test
"""

import functools
import operator

import torch


def scaled(x, y, *, by):
    return x + by * y


def backend(gm, inputs):
    for node in gm.graph.nodes:
        if node.target is operator.add:
            node.target = functools.partial(scaled, by=1)
    gm.recompile()
    return gm.forward


print(torch.compile(lambda x, y: (x.sin() + y).cos(), backend=backend)(torch.ones(3), torch.ones(3)))
