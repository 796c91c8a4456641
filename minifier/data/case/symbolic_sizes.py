"""Symbolic sizes of a Case: named as Dynamo would, or replaced by their values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from minifier.data.case import (
    Call,
    Case,
    Graph,
    Input,
    Node,
    Ref,
    Scalar,
    ScalarInput,
    Symbol,
    Symbolic,
    TensorInput,
    TensorMeta,
)
from minifier.data.case.calls import values_of_symbols, without_other_inputs
from minifier.data.case.expressions import (
    floats_in_tensors,
    is_known_float,
    is_plain,
    is_unbacked,
    symbols_in,
    value_of,
)
from minifier.data.case.graph import map_refs
from minifier.data.case.values import Sequence_, Value


def has_symbols(inputs: Iterable[Input]) -> bool:
    """Tell whether a size or number among the inputs is symbolic."""
    return any(item.symbol is not None if isinstance(item, ScalarInput) else any(item.meta.symbols) for item in inputs)


def is_symbolic(case: Case) -> bool:
    """Tell whether the backend sees symbols, of inputs or unbacked."""
    return has_symbols(case.inputs) or any(is_unbacked_value(node.value) for node in case.graph.nodes if node.is_op)


def goes_through_dynamo(case: Case) -> bool:
    """Tell whether probes call torch.compile on the graph's function, instead of the backend on the graph.

    Dynamo alone makes symbols as Dynamo does. A graph without symbols is handed to the backend as it is, which takes
    half the time, unless the failure was found to need torch.compile.
    """
    is_forced = case.through_dynamo or any(call.ones is not None for call in case.before)
    return is_forced or case.symbolic is not None or is_symbolic(case)


def _expressions(value: Value) -> Iterator[str]:
    if isinstance(value, Scalar) and value.symbol is not None:
        yield value.symbol
    elif isinstance(value, TensorMeta):
        yield from (expression for expression in value.symbols if expression is not None)
    elif isinstance(value, Sequence_):
        for item in value.items:
            yield from _expressions(item)


def is_unbacked_value(value: Value) -> bool:
    """Tell whether only running the graph determines the number, or a size of the tensor."""
    if isinstance(value, TensorMeta) and not value.symbols:  # fast path: nearly all values of a large graph
        return False
    return any(map(is_unbacked, _expressions(value)))


def is_unseen(value: Value) -> bool:
    """Tell whether a value is unbacked and was never observed: the capture then stores size 0, or no number."""
    if isinstance(value, TensorMeta):
        return any(e is not None and is_unbacked(e) and not n for e, n in zip(value.symbols, value.shape, strict=False))
    return isinstance(value, Scalar) and value.symbol is not None and value.value is None


def as_dynamo_would(case: Case) -> Case:
    """Return the candidate with the symbols that Dynamo would create for this graph alone.

    Every symbol in an input's size has a placeholder, before the first input with this symbol. An expression as a size
    becomes a new symbol. With dynamic=True every distinct size but 0 and 1 gets a symbol. A scalar input becomes a
    size's symbol, an integer argument, or (a constant to Dynamo) a literal.
    """
    naming = _Naming(case)
    tensors = [naming.sizes(item) if isinstance(item, TensorInput) else item for item in case.inputs]
    sizes = naming.hints
    known = {item.symbol: item.name for item in case.inputs if isinstance(item, ScalarInput) and item.symbol in sizes}
    inlined: dict[str, Any] = {}
    inputs: list[Input] = []
    bound: set[str] = set()
    names = {node.name for node in case.graph.nodes} | {item.name for item in case.inputs}

    def bind(symbol: str) -> None:
        if symbol not in bound:
            bound.add(symbol)
            if symbol not in known:
                known[symbol] = _free_name(names, symbol)
            inputs.append(ScalarInput(known[symbol], sizes[symbol], symbol))

    for item in tensors:
        if isinstance(item, TensorInput):
            for symbol in filter(None, item.meta.symbols):
                bind(symbol)
            inputs.append(item)
        elif item.symbol in sizes:
            inlined[item.name] = Ref(known[item.symbol])  # a second number of this size becomes the first
        elif type(item.value) is int and item.symbol is not None and _can_be_own(item.symbol, case.symbolic):
            inputs.append(replace(item, symbol=naming.own(item.symbol, item.value)))
        elif item.value is not None:
            inlined[item.name] = item.value
        else:
            inputs.append(replace(item, symbol=None))
    graph = _with_inputs(case.graph, inputs, inlined, naming)
    return replace(
        case, graph=graph, inputs=tuple(inputs), symbols=naming.symbols(), before=tuple(naming.calls(case.before))
    )


def _can_be_own(symbol: str, origin: Symbolic | None) -> bool:
    """Tell whether Dynamo makes the integer argument a symbol, because the number varies between calls."""
    return origin is Symbolic.GIVEN or (origin is not Symbolic.MARKED and not is_unbacked(symbol))


class _Naming:
    """Names of a candidate's symbols. `hints` has the values of input sizes, `numbers` of other integers, `elsewhere`
    the values of both in each earlier call with other sizes."""

    def __init__(self, case: Case) -> None:
        self.dynamic = case.symbolic is Symbolic.GIVEN
        self.facts = {symbol.name: symbol for symbol in case.symbols}
        self.hints: dict[str, int] = {}
        self.numbers: dict[str, int] = {}
        self.elsewhere: dict[str, tuple[int, ...]] = {}
        self.renamed: dict[str, str] = {}
        self._by_size: dict[tuple[int, ...], str] = {}
        self._floats = {known.symbol for known in floats_in_tensors(case).values()}
        values = values_of_symbols(case.inputs)
        self._other_values = [{**values, **dict(call.sizes)} for call in case.before if call.sizes]
        expressions = [expression for item in case.inputs for expression in _symbols_of(item)]
        self._used = {name for expression in expressions for name in symbols_in(expression)} | set(self.facts)

    def sizes(self, item: TensorInput) -> TensorInput:
        """Return the input with a single symbol, or none, for each of its sizes."""
        meta = item.meta
        expressions = meta.symbols or (None,) * len(meta.shape)
        symbols = tuple(self._size(e, size, item) for e, size in zip(expressions, meta.shape, strict=True))
        return replace(item, meta=replace(meta, symbols=symbols if any(symbols) else ()))

    def _size(self, expression: str | None, size: int, item: TensorInput) -> str | None:
        if size in (0, 1) or item.parameter:
            return None
        sizes = (size, *self._in_other_calls(expression, size))
        if self.dynamic:
            if sizes not in self._by_size:
                self._by_size[sizes] = self._name(expression, size)
            symbol = self._by_size[sizes]
        elif expression is None or is_unbacked(expression):
            return None
        else:
            symbol = self.renamed.get(expression) or self._name(expression, size)
        if expression is not None:
            self.renamed.setdefault(expression, symbol)
        self.hints[symbol], self.elsewhere[symbol] = size, sizes[1:]
        return symbol

    def _in_other_calls(self, expression: str | None, value: int) -> tuple[int, ...]:
        """Return the values that a number has in the earlier calls with other sizes."""
        known = (value_of(expression, values) if expression is not None else None for values in self._other_values)
        return tuple(each if type(each) is int else value for each in known)

    def _name(self, expression: str | None, size: int) -> str:
        if expression is None or not is_plain(expression) or is_unbacked(expression):
            return self._fresh()
        return expression if self.hints.get(expression, size) == size else self._fresh()

    def own(self, expression: str, value: int) -> str:
        """Return the symbol of a number that is no size of an input."""
        reusable = is_plain(expression) and not is_unbacked(expression) and expression not in self.numbers
        symbol = expression if reusable else self._fresh()
        self.renamed.setdefault(expression, symbol)
        self.numbers[symbol], self.elsewhere[symbol] = value, self._in_other_calls(expression, value)
        return symbol

    def _fresh(self) -> str:
        number = next(n for n in range(len(self._used) + 1) if f"s{n}" not in self._used)
        self._used.add(f"s{number}")
        return f"s{number}"

    def symbols(self) -> tuple[Symbol, ...]:
        """Return the symbols in use, with Dynamo's bounds for the known ones."""
        hints = {**self.hints, **self.numbers}
        return tuple(replace(self.facts.get(name, Symbol(name, hint)), hint=hint) for name, hint in hints.items())

    def calls(self, before: Iterable[Call]) -> Iterator[Call]:
        """Yield the earlier calls with their symbols renamed; one whose sizes are those of the failing call is left
        out."""
        hints, number = {**self.hints, **self.numbers}, 0
        for call in before:
            if not call.sizes:
                yield call
                continue
            values = {name: found[number] for name, found in self.elsewhere.items()}
            number += 1
            floats = tuple(pair for pair in call.sizes if pair[0] in self._floats)
            if sizes := (*((name, value) for name, value in values.items() if value != hints[name]), *floats):
                yield replace(call, sizes=sizes)

    def value(self, value: Value) -> Value:
        """Return a node's value with its symbols renamed."""
        if not self.renamed:
            return value
        if isinstance(value, Scalar) and value.symbol is not None:
            return replace(value, symbol=self.renamed.get(value.symbol, value.symbol))
        if isinstance(value, TensorMeta) and value.symbols:
            return replace(value, symbols=tuple(s and self.renamed.get(s, s) for s in value.symbols))
        return value


def _symbols_of(item: Input) -> tuple[str, ...]:
    if isinstance(item, ScalarInput):
        return () if item.symbol is None else (item.symbol,)
    return tuple(filter(None, item.meta.symbols))


def _free_name(names: set[str], wanted: str) -> str:
    """Return the wanted name, numbered if a node already has this name."""
    name, number = wanted, 1
    while name in names:
        name, number = f"{wanted}_{number}", number + 1
    return name


def _with_inputs(graph: Graph, inputs: list[Input], inlined: dict[str, Any], naming: _Naming) -> Graph:
    """Return the graph with placeholders for these inputs, and the inlined values."""
    placeholders = {node.name: node for node in graph.placeholders}
    entry = []
    for item in inputs:
        value: Value = item.meta if isinstance(item, TensorInput) else Scalar(item.value, item.symbol)
        node = placeholders.get(item.name) or Node(item.name, "placeholder", item.name)
        entry.append(replace(node, value=value))
    body = [_inlined(node, inlined) for node in graph.nodes if node.op != "placeholder"]
    body = [replace(node, value=naming.value(node.value)) for node in body]
    return replace(graph, nodes=(*entry, *body))


def _inlined(node: Node, values: dict[str, Any]) -> Node:
    if not any(name in values for name in node.refs()):
        return node

    def change(ref: Ref) -> Any:
        return values.get(ref.name, ref)

    return replace(node, args=map_refs(node.args, change), kwargs=map_refs(node.kwargs, change))


def specialised(case: Case) -> Case:
    """Return the Case that Dynamo would capture without dynamic shapes.

    Symbols and numbers computed from sizes become their values; unbacked values stay."""
    floats = floats_in_tensors(case)
    if not has_symbols(case.inputs) and not floats:
        return case
    values: dict[str, Any] = dict(floats)  # their tensors go
    values |= {item.name: item.value for item in case.inputs if isinstance(item, ScalarInput) and _has_known_size(item)}
    nodes: list[Node] = []
    for node in case.graph.nodes:
        if node.name in values:
            continue
        if node.is_op and isinstance(node.value, Scalar) and (_is_known_size(node.value) or is_known_float(node.value)):
            values[node.name] = node.value.value
            continue
        nodes.append(_static(_inlined(node, values)))
    inputs = tuple(
        replace(item, meta=_static_meta(item.meta)) if isinstance(item, TensorInput) else item
        for item in case.inputs
        if item.name not in values
    )
    graph = replace(case.graph, nodes=tuple(_without_unread(nodes)))
    return replace(
        case,
        graph=graph,
        inputs=inputs,
        symbolic=None,
        symbols=(),
        before=without_other_inputs(case).before,
        backend=replace(case.backend, dynamic=None),
    )


def _has_known_size(item: ScalarInput) -> bool:
    return item.symbol is not None and item.value is not None


def _is_known_size(value: Scalar) -> bool:
    """Tell whether a scalar is computed from known sizes."""
    return value.symbol is not None and isinstance(value.value, int) and not is_unbacked(value.symbol)


def _static_meta(meta: TensorMeta) -> TensorMeta:
    symbols = tuple(e if e is not None and is_unbacked(e) else None for e in meta.symbols)
    return replace(meta, symbols=symbols if any(symbols) else ())


def _static(node: Node) -> Node:
    return replace(node, value=_static_meta(node.value)) if isinstance(node.value, TensorMeta) else node


def _without_unread(nodes: list[Node]) -> list[Node]:
    """Return the nodes without unread ops that returned sizes (`x.size()`)."""
    needed: list[Node] = []
    read: set[str] = set()
    for node in reversed(nodes):
        if node.is_op and node.name not in read and isinstance(node.value, Sequence_) and _all_known(node.value):
            continue
        read.update(node.refs())
        needed.append(node)
    return needed[::-1]


def _all_known(value: Sequence_) -> bool:
    return all(isinstance(item, Scalar) and type(item.value) is int for item in value.items)
