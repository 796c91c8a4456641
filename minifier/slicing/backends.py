"""Find the expression that a script passes to torch.compile as its backend, for a backend without a name."""

from __future__ import annotations

import re

import libcst as cst
from libcst.metadata import BuiltinScope, FunctionScope, GlobalScope, MetadataWrapper, Scope, ScopeProvider


class _BackendArguments(cst.CSTVisitor):
    METADATA_DEPENDENCIES = (ScopeProvider,)

    def __init__(self) -> None:
        super().__init__()
        self.values: list[tuple[cst.BaseExpression, Scope]] = []

    def visit_Arg(self, node: cst.Arg) -> None:
        scope = self.get_metadata(ScopeProvider, node.value, None)
        if node.keyword is not None and node.keyword.value == "backend" and isinstance(scope, Scope):
            self.values.append((node.value, scope))


class _NameCollector(cst.CSTVisitor):
    """Collects the names in an expression, and the names bound there, like parameters of a lambda."""

    def __init__(self) -> None:
        self.read: set[str] = set()
        self.bound: set[str] = set()

    def visit_Name(self, node: cst.Name) -> None:
        self.read.add(node.value)

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        node.value.visit(self)
        return False

    def visit_Arg(self, node: cst.Arg) -> bool:
        node.value.visit(self)
        return False

    def visit_Param(self, node: cst.Param) -> None:
        self.bound.add(node.name.value)

    def visit_CompFor(self, node: cst.CompFor) -> None:
        target = _NameCollector()
        node.target.visit(target)
        self.bound |= target.read


def _free_names(expression: cst.CSTNode) -> set[str]:
    names = _NameCollector()
    expression.visit(names)
    return names.read - names.bound


class _Collector(cst.CSTVisitor):
    def __init__(self, node: cst.CSTNode) -> None:
        self.functions: list[cst.FunctionDef] = []
        self.assigns: list[cst.Assign] = []
        node.visit(self)

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self.functions.append(node)

    def visit_Assign(self, node: cst.Assign) -> None:
        self.assigns.append(node)


def _backend_expressions(wrapper: MetadataWrapper) -> list[tuple[cst.BaseExpression, Scope]]:
    """Return the backend arguments; a local variable that is assigned once stands for its value."""
    arguments = _BackendArguments()
    wrapper.visit(arguments)
    return [(_assigned_value(value, scope, wrapper.module) or value, scope) for value, scope in arguments.values]


def _assigned_value(name: cst.BaseExpression, scope: Scope, module: cst.Module) -> cst.BaseExpression | None:
    if not isinstance(name, cst.Name) or not isinstance(scope, FunctionScope):
        return None
    values = [
        assign.value
        for function in _Collector(module).functions
        for assign in _Collector(function).assigns
        if any(isinstance(t.target, cst.Name) and t.target.value == name.value for t in assign.targets)
    ]
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
        names = _free_names(expression)
        if fits and all(_is_global(name, scope) for name in names):
            names_of[text] = tuple(sorted(name for name in names if not _is_builtin(name, scope)))
    return next(iter(names_of.items())) if len(names_of) == 1 else None


def _is_builtin(name: str, scope: Scope) -> bool:
    return any(isinstance(assignment.scope, BuiltinScope) for assignment in scope[name])


def _is_global(name: str, scope: Scope) -> bool:
    scopes = [assignment.scope for assignment in scope[name]]
    return bool(scopes) and all(isinstance(defining, (GlobalScope, BuiltinScope)) for defining in scopes)
