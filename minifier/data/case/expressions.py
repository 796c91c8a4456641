"""Sizes as expressions of symbols, as torch prints them, and floats of the script that are passed in tensors."""

from __future__ import annotations

import ast
import functools
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

from minifier.data.case.case import Case, Symbolic
from minifier.data.case.graph import Graph, Node
from minifier.data.case.inputs import Input, TensorInput
from minifier.data.case.values import Scalar, Value

_MAX_BITS = 1000  # of a power; sizes have 63


def _power(base: Any, exponent: Any) -> Any:
    """Return the power. Raises ValueError for numbers whose power is no size: it could take hours to compute."""
    if isinstance(base, int) and isinstance(exponent, int) and abs(exponent) * base.bit_length() > _MAX_BITS:
        raise ValueError("the power is too large")
    return base**exponent


_NAME = re.compile(r"\b(?:s|u|zf|zuf)\d+\b")
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}
_CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "Max": max,
    "Min": min,
    "Mod": operator.mod,
    "PythonMod": operator.mod,
    "FloorDiv": operator.floordiv,
}


@functools.cache
def symbols_in(expression: str) -> tuple[str, ...]:
    """Return the distinct symbols in an expression, in order."""
    return tuple(dict.fromkeys(_NAME.findall(expression)))


def is_plain(expression: str) -> bool:
    """Tell whether the expression is a single symbol."""
    return _NAME.fullmatch(expression) is not None


def is_unbacked(expression: str) -> bool:
    """Tell whether a symbol of the expression gets its value only when the graph runs."""
    return any(name.startswith(("u", "zu")) for name in symbols_in(expression))


def value_of(expression: str, values: Mapping[str, Any]) -> Any:
    """Evaluate the expression. Return None for a missing symbol, an unknown form or a division by zero."""

    def evaluated(node: ast.expr) -> Any:
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            return node.value
        if isinstance(node, ast.Name):
            return values[node.id]
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -evaluated(node.operand)
        if isinstance(node, ast.BinOp):
            return _ARITHMETIC[type(node.op)](evaluated(node.left), evaluated(node.right))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            first, *rest = map(evaluated, node.args)
            return functools.reduce(_CALLS[node.func.id], rest, first)
        raise KeyError(type(node).__name__)

    try:
        return evaluated(ast.parse(expression.strip(), mode="eval").body)
    except (KeyError, SyntaxError, ValueError, ArithmeticError):
        return None


def dynamic_dims(case: Case, item: Input) -> list[int]:
    """Return the dimensions of an input that are symbolic: no size of 0 or 1, and none of a parameter.

    With `dynamic=True` all other sizes are, else those that were captured with an expression.
    """
    is_given = case.symbolic is Symbolic.GIVEN
    if not isinstance(item, TensorInput) or item.parameter or not (is_given or item.meta.symbols):
        return []
    expressions = item.meta.symbols or (None,) * len(item.meta.shape)
    sizes = zip(item.meta.shape, (is_given or (e is not None and not is_unbacked(e)) for e in expressions), strict=True)
    return [dim for dim, (size, is_dynamic) in enumerate(sizes) if size > 1 and is_dynamic]


def is_known_float(value: Value) -> bool:
    """Tell whether the value is a float that Dynamo knows as it traces: one of the script's, not of a tensor's."""
    if not isinstance(value, Scalar) or type(value.value) is not float:
        return False
    return value.symbol is None or not is_unbacked(value.symbol)


def reads_float(node: Node) -> bool:
    """Tell whether the op reads a float of the script's from the tensor that has it."""
    return (node.op, node.target) == ("call_method", "item") and is_known_float(node.value)


def floats_read(graph: Graph) -> dict[str, Scalar]:
    """Return the script's floats that the graph reads from its inputs, by the names of these."""
    floats: dict[str, Scalar] = {}
    for placeholder in graph.placeholders:
        users = [graph.node(name) for name in graph.users[placeholder.name]]
        if users and all(map(reads_float, users)):
            floats[placeholder.name] = users[0].value  # type: ignore[assignment]
    return floats


def floats_in_tensors(case: Case) -> dict[str, Scalar]:
    """Return the script's floats that are in tensors, by the names of these inputs."""
    if case.symbolic is None:
        return {}
    tensors = {item.name for item in case.tensor_inputs}
    return {name: value for name, value in floats_read(case.graph).items() if name in tensors}
