"""A backend with 29 faults, and programs that have one of them each."""

import operator
import os
import random
import time

import torch
from torch._dynamo import register_backend

OWN_MESSAGE = ("cosh", "asinh", "acosh", "atanh", "expm1", "log1p", "exp2", "log2", "log10", "rsqrt", "square", "frac")
ONE_MESSAGE = ("sin", "cos", "tan", "atan", "trunc", "ceil")
WRONG = ("sigmoid", "erf", "tanh", "erfc", "logit")
DEADLY = ("erfinv", "lgamma")
HANGING = ("digamma",)
OTHERS = ("strides", "pair", "argument")
FAULTS = (*OWN_MESSAGE, *ONE_MESSAGE, *WRONG, *DEADLY, *HANGING, *OTHERS)


@register_backend
def many_faults(gm, inputs):
    """Return the graph, but for the faults."""
    nodes = [node for node in gm.graph.nodes if node.op.startswith("call")]
    names = [node.target if isinstance(node.target, str) else node.target.__name__ for node in nodes]
    for node, name in zip(nodes, names, strict=True):
        if name in OWN_MESSAGE:
            raise NotImplementedError(f"no lowering for {name}")
        if name in ONE_MESSAGE:
            raise RuntimeError("lowering failed")
        if name in DEADLY:
            os.abort()
        if name in HANGING:
            time.sleep(3600)
        if name == "sum" and node.args[1:] == (0,) and node.kwargs.get("keepdim"):
            raise ValueError("cannot keep a dimension")
    if "exp" in names and "sqrt" in names:
        raise ValueError("cannot schedule")
    for node, name in zip(nodes, names, strict=True):
        if name in WRONG:
            _put_behind(node, operator.mul, 1.02)
        if name == "flip":
            _put_behind(node, _strided)
    gm.recompile()
    return gm.forward


def _put_behind(node, function, *arguments):
    with node.graph.inserting_after(node):
        other = node.graph.call_function(function, (node, *arguments))
    node.replace_all_uses_with(other, delete_user_cb=lambda user: user is not other)


def _strided(value):
    return value.mT.contiguous().mT


def _faulty(fault):
    if fault == "strides":
        return [lambda x: x.flip(0)]
    if fault == "pair":
        return [torch.exp, lambda x: torch.sqrt(x.abs() + 1)]
    if fault == "argument":
        return [lambda x: x + torch.sum(x, 0, keepdim=True)]
    return [lambda x: getattr(torch, fault)(x.clamp(1.1, 3) if fault == "acosh" else x.clamp(0.1, 0.9))]


_HARMLESS = (
    torch.neg,
    torch.abs,
    torch.relu,
    lambda x: x * 0.5,
    lambda x: x + x,
    lambda x: x.clamp(-2, 2),
    lambda x: torch.cat((x, x), 1)[:, :4],
    lambda x: x - x.mean(1, keepdim=True),
)


def _program(fault, seed):
    chance = random.Random(f"{fault} {seed}")
    steps = [chance.choice(_HARMLESS) for _ in range(chance.randint(2, 8))]
    for each in _faulty(fault):
        steps.insert(len(steps) if fault == "strides" else chance.randint(0, len(steps)), each)

    def run(x):
        for step in steps:
            x = step(x)
        return x

    return run


def programs():
    """Yield the programs, those of all faults in turns."""
    x = torch.rand(5, 4)
    for number in range(int(os.environ.get("MANY_FAULTS", "1000"))):
        fault, seed = FAULTS[number % len(FAULTS)], number // len(FAULTS)
        if fault not in HANGING or seed < 3:  # each takes the time limit
            yield f"{fault} {seed}", _program(fault, seed), (x,), {}
