"""The schema of a Case: what each field may hold beyond its type, and how the fields of one object fit together."""

from __future__ import annotations

import math
from typing import Any

from minifier.data.case import texts
from minifier.data.case.case import BackendReference, BackendSource, Call, Script, State
from minifier.data.case.graph import OPS, Graph, Module, Node, Ref
from minifier.data.case.inputs import Drawn, Input, Recorded, ScalarInput, Stored, TensorInput
from minifier.data.case.value_checks import (
    Check,
    Defect,
    anything,
    between,
    each,
    fields,
    mapping,
    number,
    one_of,
    plain,
    string,
    within,
)
from minifier.data.case.values import Constant, Imported, Opaque, Scalar, SourceExpression, Symbol, TensorMeta
from minifier.data.failure import Failure, Fingerprint, Frame, Tolerance
from minifier.data.failure.kinds import Difference
from minifier.data.torch_names import AUTOGRAD_FUNCTION, LAUNCH, REGION

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
_OPERATORS = {**{f"operator.i{name}": 2 for name in _IN_PLACE}, "operator.getitem": 2, "operator.setitem": 3}
_MIN_ARGUMENTS = {**_OPERATORS, AUTOGRAD_FUNCTION: 2, REGION: 2}


def _node(node: Node) -> None:
    if not isinstance(node.args, tuple):
        raise Defect(f"expected a tuple, found {type(node.args).__name__}", ".args")
    try:
        _TARGETS.get(node.op, texts.line)(node.target)
    except ValueError as error:
        raise within(".target", error) from None
    least = 1 if node.op == "output" else _MIN_ARGUMENTS.get(node.target, 0)
    is_exact = node.op == "output" or node.target in _OPERATORS
    if len(node.args) < least or (is_exact and len(node.args) > least):
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


MAX_CALLS = 10**6  # of a compiled function; each is a call in every probe
MAX_SECONDS = 10**9
_KINDS_OF_NODE = OPS | {"placeholder", "get_attr", "output"}
_DRAWN = {"randn", "rand", "randint", "bools", "ones", "zeros", "full", "list", "no memory"}

size = between(0, MAX_SIZE)
natural = between(1, MAX_CALLS)
seconds = between(0, MAX_SECONDS)
names, import_lines = each(texts.identifier), each(texts.import_line)
symbol = texts.optional(texts.symbolic)

FIELDS: dict[type, dict[str, Check]] = {
    TensorMeta: {
        "shape": each(size),
        "stride": each(size),
        "dtype": texts.dtype,
        "device": texts.device,
        "storage": size,
        "offset": size,
        "symbols": each(symbol),
    },
    Scalar: {"value": number, "symbol": symbol},
    Opaque: {"type": texts.line},
    Symbol: {"name": texts.identifier, "hint": number, "low": number, "high": number},
    Ref: {"name": texts.identifier},
    Imported: {"path": texts.import_path},
    SourceExpression: {"expression": texts.expression, "imports": import_lines, "names": names},
    Stored: {"key": texts.text, "offset": size, "base": texts.optional(texts.identifier)},
    Recorded: {"node": texts.identifier},
    Drawn: {
        "how": one_of(_DRAWN),
        "low": number,
        "high": number,
        "values": each(number),
        "storage": texts.optional(texts.text),
    },
    TensorInput: {"name": texts.identifier, "storage": size},
    ScalarInput: {"name": texts.identifier, "value": number, "symbol": symbol},
    Node: {
        "name": texts.identifier,
        "op": one_of(_KINDS_OF_NODE),
        "kwargs": mapping(string(texts.keyword_name), anything),
        "source": texts.text,
        "origin": texts.text,
        "place": texts.text,
        "modules": each(each(texts.text)),
        "changes": each(texts.text),
    },
    Module: {
        "type": texts.optional(texts.import_path),
        "plain": mapping(string(texts.text), anything),
        "parameters": mapping(texts.item_path, texts.text),
        "buffers": mapping(texts.item_path, texts.text),
        "children": mapping(texts.item_path, anything),
    },
    Graph: {
        "attributes": mapping(texts.item_path, texts.text),
        "modules": mapping(texts.item_path, anything),
    },
    BackendReference: {
        "name": texts.line,
        "expression": texts.optional(texts.expression),
        "imports": import_lines,
        "mode": texts.optional(texts.line),
        "options": mapping(string(texts.text), anything),
        "distribution": texts.optional(texts.line),
        "version": texts.optional(texts.line),
        "folders": each(texts.folder),
        "reason": texts.text,
        "names": names,
        "made_by": texts.line,
        "ahead": import_lines,
        "variables": each(texts.variable),
        "files": each(texts.folder),
    },
    State: {
        "autocast": each(fields(texts.device, texts.dtype)),
        "default_dtype": texts.dtype,
        "config": each(fields(string(texts.attributes), string(texts.attributes), anything)),
        "switches": each(fields(texts.attributes, plain)),
        "environment": each(fields(texts.variable, texts.text)),
        "skipped": each(texts.text),
    },
    Script: {
        "name": texts.file_name,
        "path": each(texts.folder),
        "imports": import_lines,
        "folders": each(texts.folder),
        "ops": each(texts.operator),
        "file": texts.line,
        "line": size,
        "seconds": seconds,
        "slowest": seconds,
        "waited": seconds,
        "graph_number": size,
        "graphs": size,  # 0 as long as the first one is traced
    },
    Call: {"sizes": each(fields(texts.identifier, number)), "times": natural, "pause": seconds},
    Failure: {
        "type": texts.line,
        "message": texts.text,
        "traceback": texts.text,
        "hints": each(each(texts.text)),
        "written": texts.text,
    },
    Fingerprint: {
        "types": each(texts.line),
        "message": texts.text,
        "names": each(texts.text),
        "ops": each(texts.text),
        "native": texts.text,
        "aspects": each(texts.line),
        "traced": texts.text,
        "graph_break": texts.text,
    },
    Frame: {"module": texts.line, "function": texts.line},
    Difference: {"where": texts.line, "sentence": texts.text, "exception": texts.text},
    Tolerance: {"rtol": between(0, math.inf), "atol": between(0, math.inf), "predicate": texts.statements},
}

# Of case.json itself.
CASE_FIELDS: dict[str, Check] = {
    "rate": between(1e-9, 1.0),
    "patience": seconds,
    "definitions": texts.statements,
    "needs": each(texts.text),
}
