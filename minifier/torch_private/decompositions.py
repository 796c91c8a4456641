"""Operators by their names, and decompositions of composite ops."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._C import _autograd, _functorch
from torch._decomp import decomposition_table
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket
from torch.fx.experimental.proxy_tensor import make_fx

from minifier.interfaces.names import HIGHER_ORDER

BUILT_IN_MODULES = tuple((module.__name__, module) for module in (_functorch, _autograd))


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


def operator_path(function: Any) -> str | None:
    """Return the import path of an operator, `torch.ops.aten.tanh.default`; None for another function."""
    if isinstance(function, (OpOverload, OpOverloadPacket)):
        return f"torch.ops.{function}"
    return f"{HIGHER_ORDER}{function}" if isinstance(function, HigherOrderOperator) else None
