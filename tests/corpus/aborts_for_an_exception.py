r"""The process ends where eager raises, like at an assertion in a parallel loop of C++.

reach: exit 0, 1 op
shows: \[.*SIGABRT
says: SIGABRT
layer: soak
"""

import os

import torch


def aborting(gm, inputs):
    def run(*args):
        try:
            return gm.forward(*args)
        except Exception:
            os.abort()

    return run


torch.compile(lambda x, i: x.sin()[i].cos(), backend=aborting)(torch.randn(10), torch.tensor([1, 77]))
