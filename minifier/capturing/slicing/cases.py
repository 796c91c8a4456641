"""The definitions and imports that a Case needs from its script."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.machinery import PathFinder

import libcst as cst

from minifier.capturing.slicing.backend_text import BackendText, backend_text
from minifier.capturing.slicing.module_statements import ModuleStatements, free_names
from minifier.capturing.slicing.slices import Wanted, slice_module
from minifier.data.case import BackendSource, Case, Graph
from minifier.data.case.literals import imported_paths, names_in, packages_imported, script_names


def _paths(graph: Graph) -> Iterator[str]:
    for node in graph.nodes:
        if node.op == "call_function":
            yield node.target
        yield from imported_paths((node.args, node.kwargs))
    for module in graph.modules.values():
        if module.graph is not None:
            yield from _paths(module.graph)


def _wanted(case: Case, until: int | None) -> Wanted:
    paths = [path for graph in case.graphs for path in _paths(graph)]
    called = [path.removeprefix("torch.ops.").split(".") for path in paths if path.startswith("torch.ops.")]
    ops = {"::".join(segments[:2]) for segments in called if len(segments) > 1}
    values = [case.backend.options, *(value for _, _, value in case.state.config)]
    names = [*case.backend.names, *script_names(values), *names_in(paths)]
    return Wanted(names, [op for op in case.script.ops if op in ops], until)


def with_definitions(case: Case, source: str) -> Case:
    """Add the definitions that the Case needs from its script. The Case is unchanged if the source is not Python."""
    try:
        case = _with_backend(case, source)
        wanted = _wanted(case, case.script.line or None)
        given = ModuleStatements(case.definitions).statements if case.definitions else ()
        defined = {name for statement in given for name in statement.binds}
        read = sorted({name for statement in given for name in statement.unbound})
        wanted = replace(wanted, names=[name for name in (*wanted.names, *read) if name not in defined])
        if not wanted.names and not wanted.ops:
            return case
        definitions = "\n".join(filter(None, (slice_module(source, wanted), case.definitions)))
        folders = {*case.backend.folders, *folders_imported_from(definitions, case.script.path)}
        backend = replace(case.backend, folders=tuple(sorted(folders)))
        return replace(case, definitions=definitions, backend=backend)
    except cst.ParserSyntaxError:  # the script ran, so its file was edited since
        return case


def folders_imported_from(source: str, path: Sequence[str]) -> list[str]:
    """Return the folders of `path` that hold a module imported by the source."""
    tops = packages_imported(source)
    return [f for f in path if any(PathFinder.find_spec(top, [f]) is not None for top in tops)]


def _with_backend(case: Case, source: str) -> Case:
    """Use the script's own expression for a backend that the script constructs."""
    backend = case.backend
    if not backend.made_by:
        return case
    text = backend_text(source, backend.made_by)
    if text is None or (backend.expression and not _may_construct(text, backend.expression)):
        return case
    reach, expression, names = BackendSource.DEFINED, text.expression, text.names
    backend = replace(backend, reach=reach, expression=expression, imports=(), names=names, reason="", made_by="")
    return replace(case, backend=backend, definitions=text.definitions)


def _may_construct(text: BackendText, captured: str) -> bool:
    """Return whether the script's text may have constructed the captured object.

    It must contain the captured object's constants. An expression must read no further variables.
    """
    reads_no_more = bool(text.definitions) or free_names(f"({text.expression})") <= free_names(f"({captured})")
    return reads_no_more and _constants(captured) <= _constants(f"{text.definitions}({text.expression})")


def _constants(source: str) -> set[str]:
    return {repr(node.value) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)}


def names_bound(definitions: str) -> set[str]:
    """Return the names that the definitions bind, imports included."""
    return {name for statement in ModuleStatements(definitions).statements for name in statement.binds}


def definitions_left(case: Case) -> str:
    """Return the definitions that the Case still needs after its graph became smaller."""
    return slice_module(case.definitions, _wanted(case, None)) if case.definitions else ""


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
        if not isinstance(statement, (ast.Import, ast.ImportFrom)):
            continue
        if isinstance(statement, ast.ImportFrom) and (statement.module == "__future__" or statement.level > 0):
            continue
        for alias in statement.names:
            line = ast.unparse(type(statement)(**{**vars(statement), "names": [alias]}))
            every[line] = None
            if (alias.asname or alias.name.partition(".")[0]) not in reads:
                effects[line] = None
    return tuple(effects), tuple(every)
