r"""The message of a failure has words that are drawn anew each time, and quotes the whole graph.

reach: exit 0, 1 op
shows: return torch\.erf\(x\)
layer: soak
"""

import random

import torch

WORDS = ["amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heron", "iris", "jade"]


class EngineError(Exception):
    pass


def naming(gm, inputs):
    kinds = [node.target.__name__ for node in gm.graph.nodes if node.op == "call_function"]
    name = " ".join(random.SystemRandom().choices(WORDS, k=3))
    if "erf" in kinds:
        raise EngineError(f"engine {name} cannot be built: op erf has no kernel in the session of {name}")
    return gm.forward


def f(x):
    for _ in range(3):
        x = torch.tanh(x * 2 + 1) / (torch.sigmoid(x) + 3)
    return torch.exp(torch.erf(torch.cos(x) - 1)) + torch.sin(x)


torch.compile(f, backend=naming)(torch.randn(4, 8))
