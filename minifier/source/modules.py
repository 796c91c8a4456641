"""Modules that stand beside the script: what it takes of them put in the place of the import."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

import libcst as cst

from minifier.slicing import Wanted, names_bound, slice_module
from minifier.slicing.module_statements import ModuleStatements, dotted
from minifier.source.statement_edits import Splice


def with_modules(source: str, folders: Sequence[str]) -> Iterator[str]:
    """The source with one of its imports replaced by the definitions that it takes from a module in these folders, for
    each of its imports where that can be done."""
    module = cst.parse_module(source)
    imports = _Imports()
    module.visit(imports)
    for line, statement in imports.found:
        name = _module_name(statement)
        path = next((p for folder in folders if (p := _file(folder, name)) is not None), None)
        if path is None:
            continue
        try:
            made = _replaced(module, line, statement, path.read_text(encoding="utf-8"))
        except (OSError, ValueError, cst.ParserSyntaxError):
            continue
        if made is not None:
            yield made


class _Imports(cst.CSTVisitor):
    """Lines that are one import each."""

    def __init__(self) -> None:
        self.found: list[tuple[cst.SimpleStatementLine, cst.Import | cst.ImportFrom]] = []

    def visit_SimpleStatementLine(self, node: cst.SimpleStatementLine) -> None:
        if len(node.body) == 1 and isinstance(node.body[0], (cst.Import, cst.ImportFrom)):
            self.found.append((node, node.body[0]))


def _module_name(statement: cst.Import | cst.ImportFrom) -> str:
    """The module that is imported; empty for several, or a relative import."""
    if isinstance(statement, cst.ImportFrom):
        return "" if statement.relative or statement.module is None else dotted(statement.module)
    return dotted(statement.names[0].name) if len(statement.names) == 1 else ""


def _file(folder: str, name: str) -> Path | None:
    if not name:
        return None
    place = Path(folder, *name.split("."))
    return next((p for p in (place.with_suffix(".py"), place / "__init__.py") if p.is_file()), None)


def _replaced(
    module: cst.Module, line: cst.SimpleStatementLine, statement: cst.Import | cst.ImportFrom, source: str
) -> str | None:
    """The module's source with the definitions in the place of the line; None where names would clash."""
    bound = names_bound(source)
    if isinstance(statement, cst.Import):
        alias = statement.names[0]
        local = dotted(alias.asname.name) if alias.asname is not None else dotted(alias.name)
        uses = _Uses(local)
        module.visit(uses)
        if "." in local or uses.bare or not uses.attributes <= bound:
            return None
        wanted = {name: name for name in uses.attributes}
        rest = module.visit(_Attributes(local))
        assert isinstance(rest, cst.Module)
        line = next(new for old, new in zip(_lines(module), _lines(rest), strict=True) if old is line)
    elif isinstance(statement.names, cst.ImportStar):
        rest = module
        wanted = {name: name for name in _read(module) & bound}
    else:
        rest = module
        asked = {alias.evaluated_name: alias.evaluated_alias or alias.evaluated_name for alias in statement.names}
        if not set(asked) <= bound:
            return None
        wanted = asked
    text = slice_module(source, Wanted(sorted(wanted)))
    lines = [f"{local} = {name}" for name, local in wanted.items() if local != name]
    defined = cst.parse_module(text + "\n".join(lines) or "pass")
    taken = names_bound(module.code) - set(wanted.values()) - _imported(text)
    if taken & names_bound(defined.code):
        return None
    made = rest.visit(Splice(line, list(defined.body)))
    assert isinstance(made, cst.Module)
    return made.code


def _lines(module: cst.Module) -> list[cst.SimpleStatementLine]:
    found = _Imports()
    module.visit(found)
    return [line for line, _ in found.found]


def _read(module: cst.Module) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(module.code)) if isinstance(node, ast.Name)}


def _imported(source: str) -> set[str]:
    """Names that an import binds: the same import twice is no clash."""
    return {name for each in ModuleStatements(source).statements for name in each.imports}


class _Uses(cst.CSTVisitor):
    """How a module's name is used: which attributes are read of it, and whether it is used for itself."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.attributes: set[str] = set()
        self.bare = False

    def visit_Import(self, node: cst.Import) -> bool:
        return False

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        if isinstance(node.value, cst.Name) and node.value.value == self.name:
            self.attributes.add(node.attr.value)
        else:
            node.value.visit(self)
        return False

    def visit_Name(self, node: cst.Name) -> None:
        self.bare = self.bare or node.value == self.name


class _Attributes(cst.CSTTransformer):
    """Reads the attributes of a module's name as names."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        value = original_node.value
        if isinstance(value, cst.Name) and value.value == self.name:
            return cst.Name(original_node.attr.value, lpar=original_node.lpar, rpar=original_node.rpar)
        return updated_node
