"""What a module binds: which name to which expression, and which statement changes an object."""

from __future__ import annotations

import ast
from collections.abc import Iterator

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINITIONS = (*FUNCTIONS, ast.ClassDef)


class Path(ast.expr):
    """Stands for an imported name, by its dotted path."""

    _fields = ("path",)

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path


def targets(target: ast.expr) -> list[str]:
    """Return the names that a target binds."""
    return [node.id for node in ast.walk(target) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]


def _root(node: ast.expr) -> str:
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call, ast.Starred)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def bindings(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield (name, what is bound) for a statement, parameter or import; a value's part, like a loop's, as `Starred`."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        of = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
        for alias in node.names:
            top = alias.name if alias.asname or of else alias.name.partition(".")[0]
            yield alias.asname or top, Path(of + top)
    elif isinstance(node, DEFINITIONS):
        yield node.name, node
    elif isinstance(node, ast.arg):
        yield node.arg, node
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _assigned(target, node.value)
    elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
        yield from _assigned(node.target, node.value)
    elif isinstance(node, ast.AugAssign):
        if isinstance(node.target, ast.Name):
            yield node.target.id, ast.BinOp(ast.Name(node.target.id), node.op, node.value)
    elif isinstance(node, (ast.For, ast.AsyncFor)):
        yield from ((name, ast.Starred(node.iter)) for name in targets(node.target))
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        yield from ((name, ast.Starred(node.context_expr)) for name in targets(node.optional_vars))
    elif isinstance(node, ast.ExceptHandler) and node.name:
        yield node.name, node


def changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield (variable, change) for a statement that replaces a part of an object, or calls a method for its effect."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute):
        yield _root(node.value), node.value
    elif isinstance(node, (ast.Assign, ast.AugAssign)):
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if isinstance(target, (ast.Attribute, ast.Subscript)):
                yield _root(target), ast.Tuple([target, node.value])


def _assigned(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, (ast.Tuple, ast.List)):
        values = value.elts if isinstance(value, (ast.Tuple, ast.List)) else ()
        if len(values) == len(target.elts) and not any(isinstance(each, ast.Starred) for each in target.elts):
            for each, given in zip(target.elts, values, strict=True):
                yield from _assigned(each, given)
        else:
            yield from ((name, ast.Starred(value)) for name in targets(target))
