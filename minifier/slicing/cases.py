"""What a Case needs of the script that it comes from."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import libcst as cst

from minifier.case import BackendSource, Case, Graph
from minifier.case.literals import OF_SCRIPT, imported_paths, objects_made
from minifier.slicing.backends import backend_expression
from minifier.slicing.module_statements import ModuleStatements
from minifier.slicing.slices import Wanted, slice_module


def _paths(graph: Graph) -> Iterator[str]:
    for node in graph.nodes:
        if node.op == "call_function":
            yield node.target
        yield from imported_paths((node.args, node.kwargs))
    for module in graph.modules.values():
        if module.graph is not None:
            yield from _paths(module.graph)


def _own_names(paths: Iterable[str]) -> list[str]:
    own = [path.removeprefix(OF_SCRIPT) for path in paths if path.startswith(OF_SCRIPT)]
    return [re.split(r"\W", path)[0] for path in dict.fromkeys(own)]


def _ops_of_graph(graph: Graph) -> list[str]:
    called = [path.removeprefix("torch.ops.").split(".") for path in _paths(graph) if path.startswith("torch.ops.")]
    return [f"{parts[0]}::{parts[1]}" for parts in called if len(parts) > 1]


def _wanted(case: Case, until: int | None) -> Wanted:
    left = set(_ops_of_graph(case.graph))
    options = case.backend.options
    given = [name for made in objects_made(options) for name in made.names]
    names = [*case.backend.names, *given, *_own_names(imported_paths(options)), *_own_names(_paths(case.graph))]
    return Wanted(names, [op for op in case.script.ops if op in left], until)


def with_definitions(case: Case, source: str) -> Case:
    """The Case with what it needs of its script's source. As it is, if that is nothing, or if it is not Python."""
    try:
        case = _with_backend(case, source)
        wanted = _wanted(case, case.script.line or None)
        known = names_bound(case.definitions) if case.definitions else set()
        wanted = replace(wanted, names=[name for name in wanted.names if name not in known])
        if not wanted.names and not wanted.ops:
            return case
        definitions = "\n".join(filter(None, (slice_module(source, wanted), case.definitions)))
        folders = {*case.backend.folders, *folders_imported_from(definitions, case.script.path)}
        backend = replace(case.backend, folders=tuple(sorted(folders)))
        return replace(case, definitions=definitions, backend=backend)
    except cst.ParserSyntaxError:  # it was run, so it has changed since
        return case


def folders_imported_from(source: str, path: Sequence[str]) -> list[str]:
    """Those folders of a path in which there is something that the source imports."""
    tops = imported_tops(source)
    return [f for f in path if any(Path(f, top).is_dir() or Path(f, f"{top}.py").is_file() for top in tops)]


def imported_tops(source: str) -> set[str]:
    """Top-level names of the modules that the source imports."""
    imports = [node for node in ast.walk(ast.parse(source)) if isinstance(node, (ast.Import, ast.ImportFrom))]
    plain = {alias.name for node in imports if isinstance(node, ast.Import) for alias in node.names}
    named = {node.module for node in imports if isinstance(node, ast.ImportFrom) and node.module and not node.level}
    return {name.partition(".")[0] for name in plain | named}


def _with_backend(case: Case, source: str) -> Case:
    """The Case with the backend as the script wrote it down, if the script made it."""
    backend = case.backend
    if not backend.made_by:
        return case
    found = backend_expression(source, backend.made_by)
    if found is None:
        return case
    expression, names = found
    if backend.expression and not _may_be(expression, backend.expression):
        return case
    made = replace(backend, reach=BackendSource.DEFINED, expression=expression, imports=(), names=names, reason="")
    return replace(case, backend=made)


def _may_be(written: str, found: str) -> bool:
    """Whether the script's words for an object may be those that made this one, which `found` would make as well: they
    have the constants that it holds, and read no variables."""
    theirs, ours = ast.parse(written, mode="eval"), ast.parse(found, mode="eval")
    more = {n.id for n in ast.walk(theirs) if isinstance(n, ast.Name)} - {
        n.id for n in ast.walk(ours) if isinstance(n, ast.Name)
    }
    return not more and _constants(ours) <= _constants(theirs)


def _constants(tree: ast.AST) -> set[str]:
    return {repr(node.value) for node in ast.walk(tree) if isinstance(node, ast.Constant)}


def names_bound(definitions: str) -> set[str]:
    """The names that the definitions give a value to, imports included."""
    return {name for statement in ModuleStatements(definitions).statements for name in statement.binds}


def definitions_left(case: Case) -> str:
    """What the Case, whose graph may have become smaller, needs of its definitions."""
    return slice_module(case.definitions, _wanted(case, None)) if case.definitions else ""
