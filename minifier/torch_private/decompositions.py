"""Decompositions of composite ops."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch.fx.experimental.proxy_tensor import make_fx


def parts_of(function: Callable[..., Any], inputs: Sequence[Any]) -> torch.fx.GraphModule:
    """Trace the function on these inputs as an ATen graph. A single op is decomposed, unless that gives prims."""
    with torch.no_grad():
        traced: torch.fx.GraphModule = make_fx(function, tracing_mode="real")(*inputs)
        ops = _ops(traced)
        if len(ops) == 1 and ops[0] in decomposition_table:
            table = {ops[0]: decomposition_table[ops[0]]}
            deeper: torch.fx.GraphModule = make_fx(function, decomposition_table=table, tracing_mode="real")(*inputs)
            if not any(str(op).startswith("prims.") for op in _ops(deeper)):  # prims would only rename the op
                return deeper
    return traced


def _ops(module: torch.fx.GraphModule) -> list[Any]:
    targets = [node.target for node in module.graph.nodes if node.op == "call_function"]
    return [target for target in targets if target is not operator.getitem]
