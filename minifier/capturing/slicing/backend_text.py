"""Find the argument `backend=` in a script, and make it an expression that the module itself can evaluate.

    def main():
        storage = {}
        train(torch.compile(model, backend=lambda gm, args: lower(gm, args, storage)))

reads a variable of `main`; a function of the statements that make the variable takes its place:

    def make_backend():
        storage = {}
        return lambda gm, args: lower(gm, args, storage)
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import libcst as cst
from libcst import matchers as m
from libcst.metadata import (
    BuiltinScope,
    FunctionScope,
    GlobalScope,
    MetadataWrapper,
    ParentNodeProvider,
    Scope,
    ScopeProvider,
)

from minifier.capturing.slicing.module_statements import dotted, free_names, missing_names
from minifier.capturing.slicing.slices import Wanted, slice_module

_Statement = cst.SimpleStatementLine | cst.BaseCompoundStatement
_FACTORY = "make_backend"
_NONLOCAL, _GLOBAL = (re.compile(rf"(?<=[ \t]){word}\b(?=[\w ,]+$)", re.MULTILINE) for word in ("nonlocal", "global"))


@dataclass(frozen=True, slots=True)
class BackendText:
    """The argument `backend=` of a call as an expression.

    names: the names that it reads, of the module or of the definitions.
    definitions: the function that makes the backend, if it needs variables of a function of the script; else "".
    """

    expression: str
    names: tuple[str, ...]
    definitions: str = ""


def backend_text(source: str, made_by: str) -> BackendText | None:
    """Return the text of the backend that the function or class `made_by` made; `<lambda>` stands for a lambda.

    None unless a single `backend=` fits, and needs only names of the module and what the function around it made of
    these. Raises libcst.ParserSyntaxError for source that is not Python.
    """
    texts = _Arguments(source, made_by).texts
    return next(iter(texts)) if len(texts) == 1 else None


class _Arguments(cst.CSTVisitor):
    """Collects the arguments `backend=` that fit, each text once."""

    def __init__(self, source: str, made_by: str) -> None:
        super().__init__()
        wrapper = MetadataWrapper(cst.parse_module(source))
        self.texts: dict[BackendText, None] = {}
        self._source, self._made_by, self._module = source, made_by.strip("<>"), wrapper.module
        self._scopes, self._parents = wrapper.resolve(ScopeProvider), wrapper.resolve(ParentNodeProvider)
        self._module.visit(self)

    def visit_Arg(self, node: cst.Arg) -> None:
        scope = self._scopes.get(node.value)
        if node.keyword is None or node.keyword.value != "backend" or not isinstance(scope, Scope):
            return
        text = self._text(node, scope)
        made_by = rf"\b{re.escape(self._made_by)}\b"
        if text is not None and (self._is_within_maker(node) or re.search(made_by, text.expression + text.definitions)):
            self.texts[text] = None

    def _is_within_maker(self, node: cst.CSTNode) -> bool:
        while not isinstance(node, cst.Module):
            node = self._parents[node]
            if isinstance(node, (cst.FunctionDef, cst.ClassDef)) and node.name.value == self._made_by:
                return True
        return False

    def _text(self, argument: cst.Arg, scope: Scope) -> BackendText | None:
        value = _assigned_value(argument.value, scope, self._module) or argument.value
        if isinstance(value, cst.Call) and dotted(value.func) == "minifier.wrap" and value.args:
            value = value.args[0].value
        text = self._module.code_for_node(value)
        names = free_names(f"({text})")
        variables = {name for name in names if not _is_global(name, scope)}
        if not variables:
            return BackendText(text, tuple(sorted(name for name in names if not _is_builtin(name, scope))))
        if not isinstance(scope, FunctionScope):
            return None
        # As statements of a module, they have their variables in its globals.
        ahead = _NONLOCAL.sub("global", self._code_ahead(argument, scope))
        lines = _GLOBAL.sub("nonlocal", slice_module(ahead, Wanted(variables)))
        factory = _FACTORY
        while factory in self._source:
            factory += "_"
        try:
            definitions = _as_function(factory, lines, text)
            read = missing_names(definitions)
        except SyntaxError:  # a variable is declared nonlocal, say
            return None
        if not all(_is_global(name, scope) for name in read):
            return None
        return BackendText(f"{factory}()", (factory,), definitions)

    def _code_ahead(self, node: cst.CSTNode, scope: FunctionScope) -> str:
        """Return the statements of the scope's function ahead of a node; of the blocks around it, those in them."""
        ahead: list[cst.BaseStatement] = []
        while node is not scope.node:
            parent = self._parents[node]
            if isinstance(parent, cst.IndentedBlock):
                ahead[:0] = parent.body[: parent.body.index(node)]
            node = parent
        return self._module.with_changes(header=(), footer=(), body=ahead).code


def _assigned_value(name: cst.BaseExpression, scope: Scope, module: cst.Module) -> cst.BaseExpression | None:
    """Return the value of a local variable that is assigned once."""
    if not isinstance(name, cst.Name) or not isinstance(scope, FunctionScope):
        return None
    assigned = m.Assign(targets=[m.ZeroOrMore(), m.AssignTarget(target=m.Name(name.value)), m.ZeroOrMore()])
    nodes = {node for function in m.findall(module, m.FunctionDef()) for node in m.findall(function, assigned)}
    values = [node.value for node in nodes if isinstance(node, cst.Assign)]
    return values[0] if len(values) == 1 else None


def _as_function(name: str, lines: str, expression: str) -> str:
    """Return the source of a function without parameters that runs the statements and returns the expression.

    Raises SyntaxError if that is no function.
    """
    result = f"({expression})" if "\n" in expression else expression
    body = [_dedented(node) for node in cst.parse_module(f"{lines}return {result}\n").body]
    if m.findall(cst.Module(body), m.Yield() | m.Await()):
        raise SyntaxError("a generator or a coroutine cannot be made again")
    function = cst.parse_statement(f"def {name}():\n    pass\n")
    assert isinstance(function, cst.FunctionDef), "a function was written"
    return cst.Module([function.with_changes(body=function.body.with_changes(body=body))]).code


def _dedented(node: _Statement) -> _Statement:
    """Return the statement with at most one blank line above it, which has no indentation."""
    lines = [line.with_changes(indent=line.comment is not None) for line in getattr(node, "leading_lines", ())]
    return node.with_changes(leading_lines=[line for n, line in enumerate(lines) if line.comment or n == 0])


def _is_builtin(name: str, scope: Scope) -> bool:
    return any(isinstance(assignment.scope, BuiltinScope) for assignment in scope[name])


def _is_global(name: str, scope: Scope) -> bool:
    scopes = [assignment.scope for assignment in scope[name]]
    return bool(scopes) and all(isinstance(defining, (GlobalScope, BuiltinScope)) for defining in scopes)
