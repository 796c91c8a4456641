"""The names that an expression or a script reads and does not bind, and the attributes of `self`."""

from __future__ import annotations

import ast
import builtins
import re
import symtable
from collections.abc import Iterator, Sequence

# What a module has without a statement that binds it.
_OF_EVERY_MODULE = frozenset({*dir(builtins), "__file__", "__name__", "__doc__", "__builtins__", "__annotations__"})


def missing_names(source: str) -> frozenset[str]:
    """Return the global names that the source reads but never binds; none for a source with a star import.

    Raises SyntaxError or ValueError for a source that is not Python.
    """
    top = symtable.symtable(source, "<source>", "exec")
    tables = [top, *_inner(top)]
    if re.search(r"\bimport\s*\*", source):
        return frozenset()
    bound = {
        symbol.get_name()
        for table in tables
        for symbol in table.get_symbols()
        if (table is top or symbol.is_declared_global()) and (symbol.is_assigned() or symbol.is_imported())
    }
    return frozenset(_global_reads(tables) - bound - _OF_EVERY_MODULE)


def free_names(expression: str) -> set[str]:
    """Return the names that an expression reads and does not bind, as a lambda binds its parameters."""
    top = symtable.symtable(expression, "<source>", "eval")
    return _global_reads([top, *_inner(top)])


def _global_reads(tables: Sequence[symtable.SymbolTable]) -> set[str]:
    return {
        symbol.get_name()
        for number, table in enumerate(tables)
        for symbol in table.get_symbols()
        if symbol.is_referenced() and (number == 0 or symbol.is_global())
    }


def _inner(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    for child in table.get_children():
        yield child
        yield from _inner(child)


def missing_attributes(source: str) -> frozenset[str]:
    """Return the attributes that methods read from `self`, and that no method or class of the source binds.

    Raises SyntaxError or ValueError for a source that is not Python.
    """
    read, bound = set[str](), set[str]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            (read if isinstance(node.ctx, ast.Load) else bound).add(node.attr)
        elif isinstance(node, ast.ClassDef):
            bound |= {name.id for each in node.body for name in ast.walk(each) if isinstance(name, ast.Name)}
            bound |= {each.name for each in node.body if isinstance(each, (ast.FunctionDef, ast.ClassDef))}
    return frozenset(read - bound)
