"""Find the expression that a script passes to torch.compile as its backend, for a backend without a name."""

from __future__ import annotations

import re

import libcst as cst
from libcst import matchers as m
from libcst.metadata import BuiltinScope, FunctionScope, GlobalScope, MetadataWrapper, Scope, ScopeProvider

from minifier.slicing.names import free_names


class _BackendArguments(cst.CSTVisitor):
    METADATA_DEPENDENCIES = (ScopeProvider,)

    def __init__(self) -> None:
        super().__init__()
        self.values: list[tuple[cst.BaseExpression, Scope]] = []

    def visit_Arg(self, node: cst.Arg) -> None:
        scope = self.get_metadata(ScopeProvider, node.value, None)
        if node.keyword is not None and node.keyword.value == "backend" and isinstance(scope, Scope):
            self.values.append((node.value, scope))


def _backend_expressions(wrapper: MetadataWrapper) -> list[tuple[cst.BaseExpression, Scope]]:
    """Return the backend arguments; a local variable that is assigned once stands for its value."""
    arguments = _BackendArguments()
    wrapper.visit(arguments)
    return [(_assigned_value(value, scope, wrapper.module) or value, scope) for value, scope in arguments.values]


def _assigned_value(name: cst.BaseExpression, scope: Scope, module: cst.Module) -> cst.BaseExpression | None:
    if not isinstance(name, cst.Name) or not isinstance(scope, FunctionScope):
        return None
    assigned = m.Assign(targets=[m.ZeroOrMore(), m.AssignTarget(target=m.Name(name.value)), m.ZeroOrMore()])
    nodes = {node for function in m.findall(module, m.FunctionDef()) for node in m.findall(function, assigned)}
    values = [node.value for node in nodes if isinstance(node, cst.Assign)]
    return values[0] if len(values) == 1 else None


def backend_expression(source: str, made_by: str) -> tuple[str, tuple[str, ...]] | None:
    """Return (expression, its names of the module) for the backend made by the function or class `made_by`.

    `<lambda>` stands for a lambda. None unless a single expression fits and reads only names of the module. Raises
    libcst.ParserSyntaxError for source that is not Python.
    """
    wrapper = MetadataWrapper(cst.parse_module(source))
    names_of: dict[str, tuple[str, ...]] = {}
    for expression, scope in _backend_expressions(wrapper):
        text = wrapper.module.code_for_node(expression)
        fits = "lambda" in text if made_by == "<lambda>" else re.search(rf"\b{re.escape(made_by)}\b", text) is not None
        names = free_names(f"({text})")
        if fits and all(_is_global(name, scope) for name in names):
            names_of[text] = tuple(sorted(name for name in names if not _is_builtin(name, scope)))
    return next(iter(names_of.items())) if len(names_of) == 1 else None


def _is_builtin(name: str, scope: Scope) -> bool:
    return any(isinstance(assignment.scope, BuiltinScope) for assignment in scope[name])


def _is_global(name: str, scope: Scope) -> bool:
    scopes = [assignment.scope for assignment in scope[name]]
    return bool(scopes) and all(isinstance(defining, (GlobalScope, BuiltinScope)) for defining in scopes)
