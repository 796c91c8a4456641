r"""A backend ends the process above the limit of a table; without the entry it would end it for another reason.

reach: exit 0, 1 op
shows: "tanh": 64
hides: "sin"
"""

import os

import torch

LIMITS = {"tanh": 64, "relu": 1024, "add": 4096, "mul": 4096, "sin": 64}


def check(name, x):
    if x.numel() > LIMITS.get(name, 0):
        os._exit(7)


class Runner(torch.fx.Interpreter):
    def call_function(self, target, args, kwargs):
        if target.__name__ in ("tanh", "relu"):
            check(target.__name__, args[0])
        return super().call_function(target, args, kwargs)


def mine(gm, example_inputs):
    return Runner(gm).run


torch.compile(lambda x: torch.tanh(torch.relu(x) * 2) + 1, backend=mine)(torch.randn(16, 8))
