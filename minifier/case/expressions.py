"""Expressions of symbolic sizes as torch prints them: `2*s77`, `(s0 + 1)//2`, `Max(2, s1)`, `u0`."""

from __future__ import annotations

import ast
import functools
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any

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


def value_of(
    expression: str, values: Mapping[str, Any], functions: Mapping[str, Callable[..., Any]] | None = None
) -> Any:
    """Evaluate the expression. Return None for a missing symbol, an unknown form or a division by zero.

    The values of its symbols may be symbolic themselves: `functions` then replaces `Max` and `Min`."""
    calls: dict[str, Callable[[Any, Any], Any]] = {"Max": max, "Min": min, **(functions or {})}
    calls |= {"Mod": operator.mod, "PythonMod": operator.mod, "FloorDiv": operator.floordiv}

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
            return functools.reduce(calls[node.func.id], rest, first)
        raise KeyError(type(node).__name__)

    try:
        return evaluated(ast.parse(expression.strip(), mode="eval").body)
    except (KeyError, SyntaxError, ValueError, ArithmeticError):
        return None
