"""How the fields of one object of a Case fit together: strides and sizes, a tensor and its storage, nodes and names."""

from __future__ import annotations

import math
from typing import Any

from minifier.case import texts
from minifier.case.case import BackendReference, BackendSource, Call
from minifier.case.checks import Check
from minifier.case.defects import Defect, within
from minifier.case.graph import Graph, Module, Node, Ref
from minifier.case.inputs import Drawn, Input, Stored, TensorInput
from minifier.case.values import Constant, Imported, TensorMeta
from minifier.interfaces.names import AUTOGRAD_FUNCTION, LAUNCH, REGION

MAX_SIZE = 2**63 - 1  # torch counts sizes, strides and elements in 64 bits
MAX_BYTES = 2**47  # of a tensor's memory: what a process can address on x86-64 and on arm64


def memory(meta: TensorMeta) -> int:
    """Return the bytes from the start of the tensor's storage to its last element."""
    return (meta.offset + meta.span) * texts.item_bytes(meta.dtype)


def _tensor(meta: TensorMeta) -> None:
    if len(meta.stride) != len(meta.shape):
        raise Defect(f"expected {len(meta.shape)} strides, as many as sizes; found {len(meta.stride)}", ".stride")
    if meta.symbols and len(meta.symbols) != len(meta.shape):
        raise Defect(f"expected {len(meta.shape)} symbols, as many as sizes; found {len(meta.symbols)}", ".symbols")
    if meta.elements > MAX_SIZE or meta.offset + meta.span > MAX_SIZE:
        raise Defect("the tensor has more than 2**63 elements", ".shape")
    if meta.device != "meta" and memory(meta) > MAX_BYTES:
        raise Defect("the tensor takes more than 2**47 bytes, which no process can address", ".shape")


def _source_fits(meta: TensorMeta, source: Any, storage: int) -> None:
    if not isinstance(source, Drawn):
        return
    count = len(source.values)
    if source.how == "list" and count not in (meta.elements, meta.span, storage):
        raise Defect(f"expected {meta.elements} values, one for each element; found {count}", ".values")
    bounds = (source.low, source.high)
    if source.how == "randint" and not (all(type(b) is int for b in bounds) and bounds[0] < bounds[1]):  # type: ignore[operator]
        raise Defect("expected integers with low < high", ".low")
    if source.how == "rand" and not all(b is None or math.isfinite(b) for b in bounds):
        raise Defect("expected finite bounds", ".low")
    if source.how == "full" and source.low is None:
        raise Defect("expected the value of all elements", ".low")


def _tensor_input(item: TensorInput) -> None:
    if item.storage and item.meta.offset + item.meta.span > item.storage:
        raise Defect("the tensor reaches beyond its storage", ".storage")
    if item.storage and item.storage * texts.item_bytes(item.meta.dtype) > MAX_BYTES:
        raise Defect("the storage takes more than 2**47 bytes, which no process can address", ".storage")
    try:
        _source_fits(item.meta, item.source, item.storage)
    except ValueError as error:
        raise within(".source", error) from None


def _constant(constant: Constant) -> None:
    (texts.device if constant.kind == "device" else texts.identifier)(constant.name)


_IN_PLACE = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift", "matmul")
_MIN_ARGUMENTS = {
    **{f"operator.i{name}": 2 for name in _IN_PLACE},
    "operator.getitem": 2,
    "operator.setitem": 3,
    AUTOGRAD_FUNCTION: 2,
    REGION: 2,
}


def _node(node: Node) -> None:
    if not isinstance(node.args, tuple):
        raise Defect(f"expected a tuple, found {type(node.args).__name__}", ".args")
    try:
        _TARGETS.get(node.op, texts.line)(node.target)
    except ValueError as error:
        raise within(".target", error) from None
    least = 1 if node.op == "output" else _MIN_ARGUMENTS.get(node.target, 0)
    if len(node.args) < least or (node.op == "output" and len(node.args) > 1):
        raise Defect(f"expected {least} arguments of {node.target}, found {len(node.args)}", ".args")
    if node.target in (AUTOGRAD_FUNCTION, REGION) and not isinstance(node.args[0], Ref):
        raise Defect("expected a subgraph", ".args[0]")
    if node.target == LAUNCH:
        kernel, arguments = node.kwargs.get("kernel"), node.kwargs.get("arguments")
        if not isinstance(kernel, Imported) or not isinstance(arguments, dict) or "grid" not in node.kwargs:
            raise Defect("expected a kernel, its grid and its arguments", ".kwargs")


_TARGETS: dict[str, Check] = {
    "call_function": texts.member_path,
    "call_method": texts.identifier,
    "call_module": texts.item_path,
    "get_attr": texts.item_path,
}


def _graph(graph: Graph) -> None:
    seen: set[str] = set()
    for position, node in enumerate(graph.nodes):
        for name in node.refs():
            if name not in seen:
                raise Defect(
                    f"node {node.name!r} reads {name!r}, which is not defined before it", f".nodes[{position}]"
                )
        if node.name in seen:
            raise Defect(f"two nodes are called {node.name!r}", f".nodes[{position}].name")
        if node.op == "call_module" and node.target not in graph.modules:
            raise Defect(f"there is no module {texts.shown(node.target)}", f".nodes[{position}].target")
        seen.add(node.name)
        if node.op == "output" and position + 1 < len(graph.nodes):
            raise Defect("an output is not the last node", f".nodes[{position}]")
    if not graph.nodes or graph.nodes[-1].op != "output":
        raise Defect("the last node is not an output", ".nodes")


def _backend(backend: BackendReference) -> None:
    if not backend.expression and backend.reach is not BackendSource.NONE:
        raise Defect("expected the expression of the backend", ".expression")


def _module(module: Module) -> None:
    if not module.type and module.graph is None:
        raise Defect("expected the class of the module", ".type")


def _call(call: Call) -> None:
    if call.graph is not None:
        fits(call.graph, call.inputs)
    elif call.inputs:
        raise Defect("expected no inputs of the Case's own graph", ".inputs")
    if call.graph is not None and call.has_other_inputs:
        raise Defect("expected inputs of another graph", ".sizes" if call.sizes else ".ones")


def fits(graph: Graph, inputs: tuple[Input, ...]) -> None:
    """Raise ValueError unless the graph's placeholders and the inputs agree, and views lie in their bases."""
    if [node.name for node in graph.placeholders] != [item.name for item in inputs]:
        raise ValueError("the graph's placeholders and the inputs do not agree")
    by_name = {item.name: item for item in inputs}
    for position, item in enumerate(inputs):
        base = item.source.base if isinstance(item, TensorInput) and isinstance(item.source, Stored) else None
        if base in by_name and not isinstance(by_name[base], TensorInput):
            raise Defect(f"{base!r} is no tensor", f".inputs[{position}].source.base")


RELATIONS: dict[type, Check] = {
    TensorMeta: _tensor,
    TensorInput: _tensor_input,
    Constant: _constant,
    Node: _node,
    Module: _module,
    Graph: _graph,
    BackendReference: _backend,
    Call: _call,
}
