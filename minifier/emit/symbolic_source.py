"""Symbolic sizes in a script: read off a tensor, marked, or made by a call with another size before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from minifier.case import Case, Drawn, Graph, Input, Node, Ref, ScalarInput, Stored, TensorInput, TensorMeta
from minifier.case.expressions import value_of
from minifier.case.values import contiguous_stride
from minifier.emit.input_source import tensor_source
from minifier.errors import NoRepro


def size_of(expression: str, values: Mapping[str, int]) -> int:
    """The value of a symbolic size like `2*s0 + 1`; raises NoRepro for one that is written in another way."""
    found = value_of(expression, values)
    if type(found) is not int:
        raise NoRepro(f"the symbolic size {expression} cannot be followed")
    return found


def _size_from(case: Case, item: ScalarInput) -> tuple[str, int] | None:
    """The tensor input and its dimension that have this symbol for their size."""
    for other in case.inputs:
        if isinstance(other, TensorInput):
            for dim, symbol in enumerate(other.meta.symbols):
                if symbol == item.symbol and other.meta.shape[dim] == item.value:
                    return other.name, dim
    return None


def without_symbols(case: Case) -> Case:
    """The Case without the placeholders that Dynamo makes for sizes: one that no op reads is left out, one that
    is the size of an input is read off it; what is left is a number that the function is given."""
    gone: set[str] = set()
    read: list[Node] = []
    for item in case.inputs:
        if not isinstance(item, ScalarInput) or item.symbol is None:
            continue
        source = _size_from(case, item)
        if not case.graph.users[item.name]:
            gone.add(item.name)
        elif source is not None:
            gone.add(item.name)
            name, dim = source
            read.append(
                Node(item.name, "call_method", "size", (Ref(name), dim), value=case.graph.node(item.name).value)
            )
    nodes = [node for node in case.graph.nodes if node.name not in gone]
    placeholders = [node for node in nodes if node.op == "placeholder"]
    rest = [node for node in nodes if node.op != "placeholder"]
    graph = Graph((*placeholders, *read, *rest), case.graph.attributes, case.graph.modules)
    return replace(case, graph=graph, inputs=tuple(item for item in case.inputs if item.name not in gone))


def marks(case: Case, names: Mapping[str, str]) -> tuple[str, ...]:
    """`torch._dynamo.mark_dynamic(x, 0)` for each input that has a symbolic size."""
    found = []
    for item in case.inputs:
        if isinstance(item, TensorInput):
            dims = [dim for dim, symbol in enumerate(item.meta.symbols) if symbol is not None]
            text = str(dims[0]) if len(dims) == 1 else str(dims)
            found += [f"torch._dynamo.mark_dynamic({names[item.name]}, {text})"] if dims else []
    return tuple(found)


def _values(case: Case) -> dict[str, int]:
    """The size that each symbol stands for, by the inputs."""
    found: dict[str, int] = {}
    for item in case.inputs:
        if isinstance(item, TensorInput):
            pairs = zip(item.meta.symbols, item.meta.shape, strict=False)
            found.update({symbol: size for symbol, size in pairs if symbol is not None and symbol.isidentifier()})
        elif item.symbol is not None and isinstance(item.value, int):
            found[item.symbol] = item.value
    return found


def other_inputs(case: Case, names: Mapping[str, str]) -> tuple[str, ...]:
    """Arguments for a call with every symbol one larger; the inputs themselves where they have none.

    Raises NoRepro where that cannot be written down.
    """
    larger = {symbol: value + 1 for symbol, value in _values(case).items()}
    return tuple(_other(item, names[item.name], larger, case.state.default_dtype) for item in case.inputs)


def _other(item: Input, name: str, larger: Mapping[str, int], default: str) -> str:
    if isinstance(item, ScalarInput):
        return str(size_of(item.symbol, larger)) if item.symbol is not None else name
    meta = item.meta
    if not any(meta.symbols):
        return name
    shape = tuple(
        size if symbol is None else size_of(symbol, larger)
        for size, symbol in zip(meta.shape, meta.symbols, strict=True)
    )
    turned = not meta.is_contiguous and meta.stride == (1, meta.shape[0])
    stride = (1, shape[0]) if turned else contiguous_stride(shape)
    made = replace(item, meta=replace(meta, shape=shape, stride=stride, offset=0), source=_drawn(item))
    return tensor_source(made, default)


def _drawn(item: TensorInput) -> Drawn:
    """How to make values for another shape: as before, unless those were given one by one."""
    if isinstance(item.source, Drawn) and item.source.how != "list":
        return item.source
    assert isinstance(item.source, (Drawn, Stored))
    return Drawn("randn" if _is_real(item.meta) else "zeros")


def _is_real(meta: TensorMeta) -> bool:
    return meta.dtype.startswith(("float", "bfloat", "complex"))
