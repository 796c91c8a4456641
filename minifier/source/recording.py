"""Record, while a script runs, what kinds of values its expressions have, and which arguments its calls need."""

from __future__ import annotations

import ast
import builtins
import inspect
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.overrides import get_testing_overrides

from minifier.source.run_facts import CALLABLE, HISTORY, NUMBER, TENSOR, Recorded

_VALUE, _CALLED = "_minify_value", "_minify_called"  # functions that the instrumented script calls
_RECORDED = (
    *(ast.Attribute, ast.BinOp, ast.BoolOp, ast.Call, ast.Compare, ast.Dict, ast.IfExp, ast.List, ast.ListComp),
    *(ast.Name, ast.Set, ast.Subscript, ast.Tuple, ast.UnaryOp),
)


def instrumented(source: str) -> str:
    """Return the script with calls that record its values within `recording`."""
    return ast.unparse(ast.fix_missing_locations(_Instrumented().visit(ast.parse(source))))


@contextmanager
def recording() -> Iterator[Recorded]:
    """Yield what instrumented code that runs in the block records."""
    recorded: Recorded = {"kinds": {}, "needed": {}}

    def add(kind: str, text: str, items: list[Any]) -> None:
        known = recorded[kind].setdefault(text, [])
        known += [item for item in items if item not in known]

    def value(text: str, value: Any) -> Any:
        kind, known = _kind(value), recorded["kinds"].setdefault(text, [])
        if kind.startswith(NUMBER) and any(each.startswith(NUMBER) and each != kind for each in known):
            kind, known[:] = NUMBER, [each for each in known if not each.startswith(NUMBER)]
        if kind not in known:
            known.append(kind)
        return value

    def called(text: str, positional: int, keywords: tuple[str, ...], function: Any) -> Any:
        add("needed", text, _needed(function, positional, keywords))
        return function

    vars(builtins).update({_VALUE: value, _CALLED: called})
    try:
        yield recorded
    finally:
        for name in (_VALUE, _CALLED):
            delattr(builtins, name)


def _kind(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        is_plain = type(value) in (torch.Tensor, torch.nn.Parameter) and value.layout is torch.strided
        if not is_plain or value.device.type != "cpu":
            return TENSOR
        has_history = value.requires_grad and not value.is_leaf
        kind = f"{TENSOR} {str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
        return f"{kind} {HISTORY}" if has_history else kind
    if isinstance(value, (bool, int, float)):
        return f"{NUMBER} {value!r}" if type(value) in (bool, int, float) and math.isfinite(value) else NUMBER
    return CALLABLE if callable(value) else type(value).__name__


def _needed(function: Any, positional: int, keywords: tuple[str, ...]) -> list[int]:
    """Return the numbers of the arguments without which the signature has none to match; positional ones come first."""
    signature, bound = _signature(function)
    if signature is None or not _binds(signature, positional + bound, list(keywords)):
        return []
    return [
        number
        for number in range(positional + len(keywords))
        if not _binds(
            signature,
            positional + bound - (number < positional),
            [name for place, name in enumerate(keywords, positional) if place != number],
        )
    ]


def _signature(function: Any) -> tuple[inspect.Signature | None, int]:
    """Return the signature, and how many of its positional arguments a call does not write; None if it is unknown.

    torch has signatures of its functions in C++ for those who override them.
    """
    if isinstance(function, torch.nn.Module):
        function = function.forward
    bound = int(isinstance(getattr(function, "__self__", None), torch.Tensor))
    of_class = getattr(torch.Tensor, function.__name__, None) if bound else function
    try:
        return inspect.signature(get_testing_overrides()[of_class]), bound  # type: ignore[index]
    except (KeyError, TypeError):
        pass
    try:
        return inspect.signature(function), 0
    except (TypeError, ValueError):
        return None, 0


def _binds(signature: inspect.Signature, positional: int, keywords: list[str]) -> bool:
    try:
        signature.bind(*range(positional), **dict.fromkeys(keywords))
    except TypeError:
        return False
    return True


class _Instrumented(ast.NodeTransformer):
    """Puts calls of the recording functions around the expressions that have a value."""

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, (ast.arg, ast.pattern)):
            return node
        if isinstance(node, ast.AnnAssign):
            node.value = self.visit(node.value) if node.value is not None else None
            return node
        if isinstance(node, ast.Expr):  # nobody reads its value
            self.generic_visit(node.value)
            return node
        if not isinstance(node, ast.expr):
            returns = getattr(node, "returns", None)
            self.generic_visit(node)
            if returns is not None:
                node.returns = returns  # type: ignore[attr-defined]
            return node
        text = ast.unparse(node)
        self.generic_visit(node)
        if isinstance(node, ast.Call):
            self._record_function(node, text)
        is_slice = isinstance(node, ast.Tuple) and any(isinstance(each, ast.Slice) for each in node.elts)
        is_read = isinstance(getattr(node, "ctx", None), (ast.Load, type(None)))
        if isinstance(node, _RECORDED) and is_read and not is_slice:
            return ast.Call(ast.Name(_VALUE, ast.Load()), [ast.Constant(text), node], [])
        return node

    def _record_function(self, node: ast.Call, text: str) -> None:
        names: Any = tuple(keyword.arg for keyword in node.keywords)
        if None in names or any(isinstance(arg, ast.Starred) for arg in node.args):
            return
        shape = [ast.Constant(text), ast.Constant(len(node.args)), ast.Constant(names)]
        node.func = ast.Call(ast.Name(_CALLED, ast.Load()), [*shape, node.func], [])
