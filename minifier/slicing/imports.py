"""The import statements of a script, apart from its other statements."""

from __future__ import annotations

import ast


def import_lines(source: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return (imports of names that the script never reads, all imports), each in the script's order.

    An import of an unread name is there for its effect, like a patch or a registration. Only statements of the module
    itself count, without relative imports. Raises SyntaxError for source that is not Python.
    """
    module = ast.parse(source)
    reads = {node.id for node in ast.walk(module) if isinstance(node, ast.Name)}
    effects: dict[str, None] = {}
    every: dict[str, None] = {}
    for statement in module.body:
        if not isinstance(statement, (ast.Import, ast.ImportFrom)) or _is_future(statement):
            continue
        for alias in statement.names:
            line = ast.unparse(type(statement)(**{**vars(statement), "names": [alias]}))
            every[line] = None
            if (alias.asname or alias.name.partition(".")[0]) not in reads:
                effects[line] = None
    return tuple(effects), tuple(every)


def _is_future(statement: ast.Import | ast.ImportFrom) -> bool:
    return isinstance(statement, ast.ImportFrom) and (statement.module == "__future__" or statement.level > 0)
