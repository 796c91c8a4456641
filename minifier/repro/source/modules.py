"""Put the definitions of a module next to the script in the place of its import."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path

import libcst as cst
from libcst import matchers as m

from minifier.capturing.slicing.cases import names_bound
from minifier.capturing.slicing.module_statements import ModuleStatements, dotted
from minifier.capturing.slicing.slices import Wanted, slice_module
from minifier.repro.source.script import changed, uses_of


def with_modules(module: cst.Module, folders: Sequence[str]) -> Iterator[cst.Module]:
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
        uses = uses_of(module, local)
        found = m.findall(module, m.Attribute(value=m.Name(local)))
        attributes = [node for node in found if isinstance(node, cst.Attribute) and node.value in uses]
        local_names = {node.attr.value: node.attr.value for node in attributes}
        if "." in local or len(uses) > len(attributes) or not local_names.keys() <= bound:
            return None
        changes: dict[cst.CSTNode, list[cst.CSTNode]] = {
            node: [node.attr.with_changes(lpar=node.lpar, rpar=node.rpar)] for node in attributes
        }
        without = changed(module, changes)
        if not isinstance(without, cst.Module):
            return None
        rest = without
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
    inlined = changed(rest, {line: list(definitions.body)})
    return inlined if isinstance(inlined, cst.Module) else None


def _names_in(module: cst.Module) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(module.code)) if isinstance(node, ast.Name)}
