"""Include the user's own comparison, a Python file, in a script."""

from __future__ import annotations

import ast
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Predicate:
    """The file's import lines, its other statements, and its top-level names."""

    imports: tuple[str, ...]
    statements: tuple[str, ...]
    names: tuple[str, ...]


def predicate_source(text: str) -> Predicate:
    """Split the file, without its docstring and its `if __name__ == ...` block."""
    tree = ast.parse(text)
    imports, statements, names = [], [], []
    for number, node in enumerate(tree.body):
        source = ast.get_source_segment(text, node) or ast.unparse(node)
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            if isinstance(node, ast.Import) or node.module != "__future__":
                imports += _single_imports(node)
            names += [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
            continue
        if number == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test):
            continue
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            decorators = [f"@{ast.unparse(decorator)}" for decorator in node.decorator_list]
            source = "\n".join([*decorators, source])
            names.append(node.name)
        else:
            names += [n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
        statements.append(source)
    return Predicate(tuple(imports), tuple(statements), tuple(names))


def _single_imports(node: ast.Import | ast.ImportFrom) -> list[str]:
    """Return a line for each module, to be merged with the script's imports."""
    if isinstance(node, ast.ImportFrom):
        return [ast.unparse(node)]
    return [ast.unparse(ast.Import([alias])) for alias in node.names]


def defined_names(text: str) -> tuple[str, ...]:
    """Return the file's top-level names; none for an empty text."""
    return predicate_source(text).names
