"""Faults to plant in a graph, as predicates of its ops, and backends that show them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from minifier.data.case import Node, TensorMeta


class Op(NamedTuple):
    """An op as a fault sees it: `reads` has the positions of the ops whose results it reads; no dtype if no tensor."""

    target: str
    dtype: str
    elements: int
    reads: tuple[int, ...]


def all_of(ops: Sequence[Op], *targets: str) -> bool:
    return set(targets) <= {op.target for op in ops}


def pair(ops: Sequence[Op], read: str, reader: str) -> bool:
    return any(op.target == reader and any(ops[i].target == read for i in op.reads) for op in ops)


def path(ops: Sequence[Op], start: str, end: str) -> bool:
    """An op of the one target depends on an op of the other one, directly or through other ops."""
    after: list[bool] = []  # whether the op is such a start, or depends on one
    for op in ops:
        depends = any(after[i] for i in op.reads)
        if depends and op.target == end:
            return True
        after.append(depends or op.target == start)
    return False


def count(ops: Sequence[Op], target: str, least: int) -> bool:
    return sum(op.target == target for op in ops) >= least


def size(ops: Sequence[Op], target: str, least: int) -> bool:
    return any(op.target == target and op.elements >= least for op in ops)


def dtype(ops: Sequence[Op], target: str, name: str) -> bool:
    return any(op.target == target and op.dtype == name for op in ops)


FAULTS: dict[str, Callable[..., bool]] = {f.__name__: f for f in (all_of, pair, path, count, size, dtype)}


def ops_of_nodes(nodes: Sequence[Node]) -> list[Op]:
    """Some ops of a Case's graph, without the others."""
    position = {node.name: i for i, node in enumerate(nodes)}
    ops = []
    for node in nodes:
        of = node.value if isinstance(node.value, TensorMeta) else None
        reads = tuple(position[name] for name in node.refs() if name in position)
        ops.append(Op(node.short_target, of.dtype if of else "", of.elements if of else 0, reads))
    return ops


def ops_of_module(gm: torch.fx.GraphModule) -> list[Op]:
    """The ops of a graph that a backend gets."""
    nodes = [node for node in gm.graph.nodes if node.op.startswith("call_")]
    position = {node: i for i, node in enumerate(nodes)}
    return [_op(node, tuple(position[n] for n in node.all_input_nodes if n in position)) for node in nodes]


def _op(node: torch.fx.Node, reads: tuple[int, ...]) -> Op:
    value = node.meta.get("example_value")
    if not isinstance(value, torch.Tensor):
        return Op(_target(node), "", 0, reads)
    return Op(_target(node), str(value.dtype).removeprefix("torch."), value.numel(), reads)


def _target(node: torch.fx.Node) -> str:
    return str(getattr(node.target, "__name__", node.target))


def refuse(gm: torch.fx.GraphModule, inputs: Sequence[Any], *, fault: str, of: tuple[Any, ...]) -> Callable[..., Any]:
    """A backend that refuses each graph that has the fault."""
    if FAULTS[fault](ops_of_module(gm), *of):
        raise NotImplementedError(f"no lowering for {fault}")
    return gm.forward


def refuse_values(gm: torch.fx.GraphModule, inputs: Sequence[Any], *, target: str, above: float) -> Callable[..., Any]:
    """A backend whose code raises where a result of this op has an element above a number."""

    class Run(torch.fx.Interpreter):
        def run_node(self, n: torch.fx.Node) -> Any:
            value = super().run_node(n)
            if _target(n) == target and isinstance(value, torch.Tensor) and (value.double() > above).any():
                raise OverflowError("a value is too large")
            return value

    return Run(gm).run


def off_by_one(gm: torch.fx.GraphModule, inputs: Sequence[Any], *, target: str, read: str = "") -> Callable[..., Any]:
    """A backend that adds one to each result of this op; with `read`, only where the op reads a result of that one."""

    class Run(torch.fx.Interpreter):
        def run_node(self, n: torch.fx.Node) -> Any:
            value = super().run_node(n)
            guilty = _target(n) == target and (not read or any(_target(each) == read for each in n.all_input_nodes))
            return value + 1 if guilty else value

    return Run(gm).run
