"""Slice the body of a function whose call goes on: the statements that had run, and that its variables need."""

from __future__ import annotations

import ast
import symtable
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m
from libcst.metadata import CodeRange, FunctionScope, MetadataWrapper, PositionProvider, ScopeProvider

from minifier.capturing.slicing.module_statements import ModuleStatements
from minifier.capturing.slicing.slices import Wanted, slice_module

_PROBE = "function_of_the_slice"  # a name that no script has


@dataclass(frozen=True, slots=True)
class FunctionBody:
    """The statements of a function that had run, as the text of a module; its variables, and which are parameters.

    `positional` are the parameters that a call may give by position, in their order.
    A block that was still running, a loop say, is replaced by the statements in it.
    """

    source: str
    variables: frozenset[str]
    parameters: frozenset[str]
    positional: tuple[str, ...]

    def slice(self, names: Collection[str], known: Collection[str] = ()) -> str:
        """Return the statements that these variables need; empty if there are none.

        What assigns a `known` variable is left out, if the variable has had one value only.
        """
        bindings = Counter(name for statement in ModuleStatements(self.source).statements for name in statement.binds)
        changed = {name for names in m.findall(cst.parse_module(self.source), m.Global()) for name in _declared(names)}
        constant = {name for name in known if bindings[name] <= 1} - changed
        lines = slice_module(self.source, Wanted(names, known=constant))
        return cst.parse_module(lines).visit(_Declared(cst.Nonlocal, self.variables)).code if changed else lines


class _Declared(cst.CSTTransformer):
    """Declares the names as `global`, as if the function's variables were those of a module, or as `nonlocal`."""

    def __init__(self, kind: type[cst.Global | cst.Nonlocal], names: Collection[str]) -> None:
        super().__init__()
        self._kind, self._names = kind, names

    def leave_Global(self, original_node: cst.Global, updated_node: cst.Global) -> cst.Global | cst.Nonlocal:
        return self._declared(updated_node)

    def leave_Nonlocal(self, original_node: cst.Nonlocal, updated_node: cst.Nonlocal) -> cst.Global | cst.Nonlocal:
        return self._declared(updated_node)

    def _declared(self, node: cst.Global | cst.Nonlocal) -> cst.Global | cst.Nonlocal:
        return self._kind(node.names) if set(_declared(node)) <= set(self._names) else node


def _declared(node: cst.CSTNode) -> list[str]:
    assert isinstance(node, (cst.Global, cst.Nonlocal)), "it declares names"
    return [item.name.value for item in node.names]


def function_body(source: str, name: str, line: int) -> FunctionBody | None:
    """Return the body of the innermost function of this name around the line: what had run when it stood there.

    None if there is no such function. Raises libcst.ParserSyntaxError for source that is not Python.
    """
    wrapper = MetadataWrapper(cst.parse_module(source))
    positions = wrapper.resolve(PositionProvider)
    functions = _Functions(positions, line)
    wrapper.module.visit(functions)
    function = next((each for each in reversed(functions.around) if each.name.value == name), None)
    if function is None or not isinstance(function.body, cst.IndentedBlock):
        return None
    statements = _have_run(function.body.body, line, positions)
    parameters = {node.name.value for node in _parameters(function.params)}
    positional = tuple(node.name.value for node in (*function.params.posonly_params, *function.params.params))
    variables = set(parameters)
    for scope in wrapper.resolve(ScopeProvider).values():
        if isinstance(scope, FunctionScope) and scope.node is function:
            variables |= {each.name for each in scope.assignments}
    empty = cst.Module([], default_indent=wrapper.module.default_indent)
    text = cst.parse_module("".join(map(empty.code_for_node, statements))).visit(_Declared(cst.Global, variables)).code
    return FunctionBody(text, frozenset(variables), frozenset(parameters), positional)


class _Functions(cst.CSTVisitor):
    """Collects the functions around a line, the outermost first."""

    def __init__(self, positions: Mapping[cst.CSTNode, CodeRange], line: int) -> None:
        super().__init__()
        self.around: list[cst.FunctionDef] = []
        self._positions, self._line = positions, line

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        position = self._positions[node]
        if position.start.line < self._line <= position.end.line:
            self.around.append(node)


def _parameters(params: cst.Parameters) -> Iterator[cst.Param]:
    yield from (*params.posonly_params, *params.params, *params.kwonly_params)
    yield from (star for star in (params.star_arg, params.star_kwarg) if isinstance(star, cst.Param))


def _have_run(
    body: Sequence[cst.BaseStatement], line: int, positions: Mapping[cst.CSTNode, CodeRange]
) -> Iterator[cst.BaseStatement]:
    for statement in body:
        position = positions[statement]
        if position.end.line < line:
            yield statement
            continue
        if not isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
            for block in _blocks(statement):
                if positions[block.body[0]].start.line <= line <= positions[block.body[-1]].end.line:
                    yield from _have_run(block.body, line, positions)
        return


def _blocks(statement: cst.CSTNode) -> Iterator[cst.IndentedBlock]:
    """Yield the blocks of a compound statement: those of `else`, `except` and `case` too."""
    for child in statement.children:
        if isinstance(child, cst.IndentedBlock):
            yield child
        elif isinstance(child, (cst.If, cst.Else, cst.ExceptHandler, cst.Finally, cst.MatchCase)):
            yield from _blocks(child)


def global_names(lines: str, expression: str) -> set[str]:
    """Return the names that a function of these statements, and `return expression`, reads and does not bind.

    Raises SyntaxError if that is no function.
    """
    tree = ast.parse(as_function(_PROBE, lines, expression))
    (function,) = tree.body
    assert isinstance(function, ast.FunctionDef), "a function was written"
    if any(isinstance(node, (ast.Yield, ast.YieldFrom, ast.Await)) for node in _run_by(function)):
        raise SyntaxError("a generator or a coroutine cannot be made again")
    found: set[str] = set()
    tables = [symtable.symtable(ast.unparse(tree), "<slice>", "exec")]
    while tables:
        table = tables.pop()
        tables += table.get_children()
        if table.get_type() != "module":
            found |= {s.get_name() for s in table.get_symbols() if s.is_global() and s.is_referenced()}
    return found


def _run_by(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """Yield the nodes of a function that are not of a function in it."""
    queue: list[ast.AST] = list(function.body)
    while queue:
        node = queue.pop()
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            queue += ast.iter_child_nodes(node)


def names_assigned(lines: str) -> set[str]:
    """Return the variables that a function of these statements binds."""
    (table,) = symtable.symtable(as_function(_PROBE, lines, "None"), "<slice>", "exec").get_children()
    return {symbol.get_name() for symbol in table.get_symbols() if symbol.is_local()}


def as_function(name: str, lines: str, expression: str) -> str:
    """Return the source of a function without parameters that runs the statements and returns the expression."""
    result = f"({expression})" if "\n" in expression else expression
    body = [_short(node) for node in cst.parse_module(lines).body]
    returned = cst.parse_statement(f"return {result}\n")
    function = cst.parse_statement(f"def {name}():\n    pass\n")
    assert isinstance(function, cst.FunctionDef), "a function was written"
    whole = function.with_changes(body=function.body.with_changes(body=[*body, returned]))
    return cst.Module([whole]).code


def _short(node: cst.BaseStatement) -> cst.BaseStatement:
    """Return the statement with a blank line above it at most, which has no indentation."""
    lines = [line.with_changes(indent=line.comment is not None) for line in getattr(node, "leading_lines", ())]
    return node.with_changes(leading_lines=[line for n, line in enumerate(lines) if line.comment or n == 0])


def lambda_text(source: str, line: int, parameters: Sequence[str], columns: Collection[int]) -> str | None:
    """Return the text of the lambda at this line that has these parameters; None if there is none.

    Of several, the one whose body begins in one of the columns.
    """
    found = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Lambda)
        and node.lineno == line
        and [each.arg for each in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)] == list(parameters)
    ]
    if len(found) > 1:
        found = [node for node in found if node.body.col_offset in columns]
    return ast.get_source_segment(source, found[0]) if len(found) == 1 else None


def argument_text(source: str, line: int, called: str, name: str, positional: Sequence[str]) -> str | None:
    """Return the text of the argument for a parameter, in the only call of a function or class at a line.

    `positional` are the parameters of the function by position: of a method, `self` too. None if there is no such call.
    """
    calls = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and node.lineno <= line <= (node.end_lineno or 0)
        and called == getattr(node.func, "id", getattr(node.func, "attr", ""))
    ]
    if len(calls) != 1 or any(isinstance(each, ast.Starred) for each in calls[0].args):
        return None
    names = positional[1:] if positional[:1] == ("self",) else positional
    given = dict(zip(names, calls[0].args, strict=False)) | {each.arg: each.value for each in calls[0].keywords}
    return ast.get_source_segment(source, given[name]) if name in given else None


def backend_arguments(source: str, name: str, line: int) -> list[str]:
    """Return the texts of the arguments `backend=` in the innermost function of this name around the line."""
    functions = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and node.name == name
        and node.lineno < line <= (node.end_lineno or 0)
    ]
    texts = (
        [
            ast.get_source_segment(source, node.value) or ""
            for node in ast.walk(functions[-1])
            if isinstance(node, ast.keyword) and node.arg == "backend"
        ]
        if functions
        else []
    )
    return [text for text in dict.fromkeys(texts) if text]
