"""Inline modules next to the script: replace an import by the definitions that the script uses."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

import libcst as cst

from minifier.slicing import Wanted, names_bound, slice_module
from minifier.slicing.module_statements import ModuleStatements, dotted
from minifier.source.put_value import Changes, Edited


def with_modules(module: cst.Module, folders: Sequence[str]) -> Iterator[Edited]:
    """Yield, for each import of a module in these folders, the script with that import replaced by definitions.

    Imports that cannot be replaced are skipped.
    """
    for line, statement in _Imports(module).lines:
        name = _module_name(statement)
        path = next((p for folder in folders if (p := _file(folder, name)) is not None), None)
        if path is None:
            continue
        try:
            inlined = _inlined(module, line, statement, path.read_text(encoding="utf-8"))
        except (OSError, ValueError, cst.ParserSyntaxError):
            continue
        if inlined is not None:
            yield inlined


class _Imports(cst.CSTVisitor):
    """Collects the lines that consist of a single import statement."""

    def __init__(self, module: cst.Module) -> None:
        self.lines: list[tuple[cst.SimpleStatementLine, cst.Import | cst.ImportFrom]] = []
        module.visit(self)

    def visit_SimpleStatementLine(self, node: cst.SimpleStatementLine) -> None:
        if len(node.body) == 1 and isinstance(node.body[0], (cst.Import, cst.ImportFrom)):
            self.lines.append((node, node.body[0]))


def _module_name(statement: cst.Import | cst.ImportFrom) -> str:
    """Return the imported module's name; empty for several modules or a relative import."""
    if isinstance(statement, cst.ImportFrom):
        return "" if statement.relative or statement.module is None else dotted(statement.module)
    return dotted(statement.names[0].name) if len(statement.names) == 1 else ""


def _file(folder: str, name: str) -> Path | None:
    if not name:
        return None
    path = Path(folder, *name.split("."))
    return next((p for p in (path.with_suffix(".py"), path / "__init__.py") if p.is_file()), None)


def _inlined(
    module: cst.Module, line: cst.SimpleStatementLine, statement: cst.Import | cst.ImportFrom, source: str
) -> cst.Module | None:
    """Return the module with definitions from `source` in place of the line.

    None if names would clash, or the definitions lack a used name.
    """
    bound = names_bound(source)
    rest = module
    if isinstance(statement, cst.Import):
        alias = statement.names[0]
        local = dotted(alias.asname.name) if alias.asname is not None else dotted(alias.name)
        uses = _ModuleUses(local)
        module.visit(uses)
        if "." in local or uses.bare or not uses.attributes <= bound:
            return None
        local_names = {name: name for name in uses.attributes}
        rest = module.visit(_AttributesAsNames(local))
        assert isinstance(rest, cst.Module)
        lines = zip(_Imports(module).lines, _Imports(rest).lines, strict=True)
        line = next(new for (old, _), (new, _) in lines if old is line)
    elif isinstance(statement.names, cst.ImportStar):
        local_names = {name: name for name in _names_in(module) & bound}
    else:
        local_names = {alias.evaluated_name: alias.evaluated_alias or alias.evaluated_name for alias in statement.names}
        if not set(local_names) <= bound:
            return None
    text = slice_module(source, Wanted(sorted(local_names)))
    aliases = [f"{local} = {name}" for name, local in local_names.items() if local != name]
    definitions = cst.parse_module(text + "\n".join(aliases) or "pass")
    imports = {name for s in ModuleStatements(text).statements for name in s.imports}  # twice is no clash
    reserved = names_bound(module.code) - set(local_names.values()) - imports
    if reserved & names_bound(definitions.code):
        return None
    inlined = rest.visit(Changes({line: list(definitions.body)}))
    assert isinstance(inlined, cst.Module)
    return inlined


def _names_in(module: cst.Module) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(module.code)) if isinstance(node, ast.Name)}


class _ModuleUses(cst.CSTVisitor):
    """Collects the attributes read from a module's name, and whether the name is used by itself."""

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


class _AttributesAsNames(cst.CSTTransformer):
    """Replaces attributes of a module's name by bare names."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        value = original_node.value
        if isinstance(value, cst.Name) and value.value == self.name:
            return cst.Name(original_node.attr.value, lpar=original_node.lpar, rpar=original_node.rpar)
        return updated_node
