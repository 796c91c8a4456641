"""Backends that cannot compile everything, and say so only at level DEBUG.

A graph with an op that they do not know goes to inductor (`quiet_inductor`) or runs eagerly (`quiet_eager`).
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch._dynamo import register_backend

from minifier_backends.errors import LoweringError

_LOG = logging.getLogger(__name__)
_KNOWN = frozenset({"relu", "add", "mul", "linear", "getitem"})

Compiled = Callable[..., Any]


def _lowered(gm: fx.GraphModule) -> Compiled:
    """A function of our own that runs the graph. Raises LoweringError for an op without a kernel."""
    for node in gm.graph.nodes:
        name = getattr(node.target, "__name__", str(node.target))
        if node.op.startswith("call_") and name not in _KNOWN:
            raise LoweringError(f"no kernel for {name}")
    return lambda *args: fx.Interpreter(gm).run(*args)


def _compiled(gm: fx.GraphModule, fall_back: Callable[[], Compiled]) -> Compiled:
    try:
        return _lowered(gm)
    except LoweringError as error:
        _LOG.debug("falling back: %s", error)
        return fall_back()


@register_backend
def quiet_inductor(gm: fx.GraphModule, example_inputs: Sequence[torch.Tensor]) -> Compiled:
    """Hands a graph with an unknown op to inductor."""
    from torch._inductor.compile_fx import compile_fx

    return _compiled(gm, lambda: compile_fx(gm, example_inputs))


@register_backend
def quiet_eager(gm: fx.GraphModule, example_inputs: Sequence[torch.Tensor]) -> Compiled:
    """Runs a graph with an unknown op as it is."""
    return _compiled(gm, lambda: gm.forward)
