r"""A backend works without the option that the script gives it.

reach: exit 0, 1 op
shows: fast_tanh
says: at fault  what the program's own options=\{"fast_tanh": True\} asks for\navoid     leave out options=
run: --explain
layer: soak
"""

import torch


def careful(gm, inputs, options=None):
    if (options or {}).get("fast_tanh"):
        for node in gm.graph.nodes:
            if node.target == "tanh":
                raise RuntimeError("no fast tanh on this machine")
    return gm.forward


print(torch.compile(lambda x: x.tanh().sin(), backend=careful, options={"fast_tanh": True})(torch.ones(3)))
