"""Symbolic sizes in a script: read from a tensor, marked dynamic, or caused by an earlier call with another size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from minifier.case import Case, Drawn, Graph, Input, Node, Ref, ScalarInput, Stored, TensorInput
from minifier.case.expressions import value_of
from minifier.case.values import contiguous_stride
from minifier.emit.input_source import tensor_source
from minifier.emit.return_source import is_floating
from minifier.errors import NoRepro


def size_of(expression: str, values: Mapping[str, int]) -> int:
    """Evaluate a symbolic size like `2*s0 + 1`. Raises NoRepro if its form is unknown."""
    size = value_of(expression, values)
    if type(size) is not int:
        raise NoRepro(f"the symbolic size {expression} cannot be followed")
    return size


def _size_from(case: Case, item: ScalarInput) -> tuple[str, int] | None:
    """Return the tensor input and the dimension whose size is this symbol."""
    for other in case.inputs:
        if isinstance(other, TensorInput):
            for dim, symbol in enumerate(other.meta.symbols):
                if symbol == item.symbol and other.meta.shape[dim] == item.value:
                    return other.name, dim
    return None


def without_symbols(case: Case) -> Case:
    """Remove the placeholders that Dynamo adds for sizes.

    An unused size is dropped. The size of a tensor input becomes a call of its `size`. Any other size stays an input.
    """
    removed: set[str] = set()
    size_calls: list[Node] = []
    for item in case.inputs:
        if not isinstance(item, ScalarInput) or item.symbol is None:
            continue
        source = _size_from(case, item)
        if not case.graph.users[item.name]:
            removed.add(item.name)
        elif source is not None:
            removed.add(item.name)
            name, dim = source
            value = case.graph.node(item.name).value
            size_calls.append(Node(item.name, "call_method", "size", (Ref(name), dim), value=value))
    nodes = [node for node in case.graph.nodes if node.name not in removed]
    placeholders = [node for node in nodes if node.op == "placeholder"]
    rest = [node for node in nodes if node.op != "placeholder"]
    graph = Graph((*placeholders, *size_calls, *rest), case.graph.attributes, case.graph.modules)
    return replace(case, graph=graph, inputs=tuple(item for item in case.inputs if item.name not in removed))


def marks(case: Case, names: Mapping[str, str]) -> tuple[str, ...]:
    """Return `torch._dynamo.mark_dynamic(x, 0)` for each input with a symbolic size."""
    statements = []
    for item in case.inputs:
        if isinstance(item, TensorInput):
            dims = [dim for dim, symbol in enumerate(item.meta.symbols) if symbol is not None]
            text = str(dims[0]) if len(dims) == 1 else str(dims)
            statements += [f"torch._dynamo.mark_dynamic({names[item.name]}, {text})"] if dims else []
    return tuple(statements)


def _symbol_values(case: Case) -> dict[str, int]:
    """Map each symbol to its value in the inputs."""
    values: dict[str, int] = {}
    for item in case.inputs:
        if isinstance(item, TensorInput):
            pairs = zip(item.meta.symbols, item.meta.shape, strict=False)
            values.update({symbol: size for symbol, size in pairs if symbol is not None and symbol.isidentifier()})
        elif item.symbol is not None and isinstance(item.value, int):
            values[item.symbol] = item.value
    return values


def larger_inputs(case: Case, names: Mapping[str, str]) -> tuple[str, ...]:
    """Return arguments for a call with every symbol increased by 1; inputs without symbols stay the same.

    Raises NoRepro if a size has no known form.
    """
    sizes = {symbol: value + 1 for symbol, value in _symbol_values(case).items()}
    return tuple(_larger(item, names[item.name], sizes, case.state.default_dtype) for item in case.inputs)


def _larger(item: Input, name: str, sizes: Mapping[str, int], default: str) -> str:
    if isinstance(item, ScalarInput):
        return str(size_of(item.symbol, sizes)) if item.symbol is not None else name
    meta = item.meta
    if not any(meta.symbols):
        return name
    shape = tuple(
        size if symbol is None else size_of(symbol, sizes)
        for size, symbol in zip(meta.shape, meta.symbols, strict=True)
    )
    is_transposed = not meta.is_contiguous and meta.stride == (1, meta.shape[0])
    stride = (1, shape[0]) if is_transposed else contiguous_stride(shape)
    larger = replace(item, meta=replace(meta, shape=shape, stride=stride, offset=0), source=_drawn(item))
    return tensor_source(larger, default)


def _drawn(item: TensorInput) -> Drawn:
    """Return how to draw values for another shape: as before, unless the values are listed or stored."""
    if isinstance(item.source, Drawn) and item.source.how != "list":
        return item.source
    assert isinstance(item.source, (Drawn, Stored))
    return Drawn("randn" if is_floating(item.meta) else "zeros")
