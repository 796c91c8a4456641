r"""The backend reads the program's arguments, and names them in its error.

reach: exit 0, 5 statements
shows: sys\.argv\[1:\] = \['--level', 'hard'\].*tanh\(x\), backend=refuse
run: -- --level hard
says: --level: given to .*no lowering with \['--level', 'hard'\]
layer: soak
"""

import sys

import torch


def refuse(gm, inputs):
    if any(node.target is torch.tanh for node in gm.graph.nodes):
        raise ValueError(f"no lowering with {sys.argv[1:]}")
    return gm.forward


torch.compile(lambda x: torch.tanh(x + 1) * 2, backend=refuse)(torch.randn(4))
