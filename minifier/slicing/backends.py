"""The expression that a script gives to torch.compile as its backend, for one that the script holds under no name."""

from __future__ import annotations

import re

import libcst as cst
from libcst.metadata import BuiltinScope, FunctionScope, GlobalScope, MetadataWrapper, Scope, ScopeProvider


class _Given(cst.CSTVisitor):
    METADATA_DEPENDENCIES = (ScopeProvider,)

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[cst.BaseExpression, Scope]] = []

    def visit_Arg(self, node: cst.Arg) -> None:
        scope = self.get_metadata(ScopeProvider, node.value, None)
        if node.keyword is not None and node.keyword.value == "backend" and isinstance(scope, Scope):
            self.found.append((node.value, scope))


class _NameCollector(cst.CSTVisitor):
    """Names that an expression reads, without those that it binds itself, as a lambda does."""

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
        bound = _NameCollector()
        node.target.visit(bound)
        self.bound |= bound.read


def names_read(expression: cst.CSTNode) -> set[str]:
    """The names that evaluating the expression looks up around it."""
    names = _NameCollector()
    expression.visit(names)
    return names.read - names.bound


def _assigned(name: cst.BaseExpression, scope: Scope, module: cst.Module) -> cst.BaseExpression | None:
    """What a local variable was given, if that happens in one place."""
    if not isinstance(name, cst.Name) or not isinstance(scope, FunctionScope):
        return None
    values = [
        line.value
        for function in _functions(module)
        for line in _assigns(function)
        if any(isinstance(t.target, cst.Name) and t.target.value == name.value for t in line.targets)
    ]
    return values[0] if len(values) == 1 else None


class _Collected(cst.CSTVisitor):
    def __init__(self) -> None:
        self.functions: list[cst.FunctionDef] = []
        self.assigns: list[cst.Assign] = []

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self.functions.append(node)

    def visit_Assign(self, node: cst.Assign) -> None:
        self.assigns.append(node)


def _functions(module: cst.Module) -> list[cst.FunctionDef]:
    collected = _Collected()
    module.visit(collected)
    return collected.functions


def _assigns(function: cst.FunctionDef) -> list[cst.Assign]:
    collected = _Collected()
    function.visit(collected)
    return collected.assigns


def backend_expression(source: str, made_by: str) -> tuple[str, tuple[str, ...]] | None:
    """(expression, the names of the module that it reads) of the one backend in the source that was made by the
    function or class of this name, or is a lambda (`<lambda>`), if names of the module are all that it takes. Raises
    libcst.ParserSyntaxError for source that is not Python."""
    wrapper = MetadataWrapper(cst.parse_module(source))
    given = _Given()
    wrapper.visit(given)
    found: dict[str, tuple[str, ...]] = {}
    for value, scope in given.found:
        expression = _assigned(value, scope, wrapper.module) or value
        text = wrapper.module.code_for_node(expression)
        is_it = "lambda" in text if made_by == "<lambda>" else re.search(rf"\b{re.escape(made_by)}\b", text) is not None
        names = names_read(expression)
        if is_it and all(_is_global(name, scope) for name in names):
            found[text] = tuple(sorted(name for name in names if not _is_builtin(name, scope)))
    return next(iter(found.items())) if len(found) == 1 else None


def names_given(source: str) -> set[str]:
    """The names that the source reads where it gives a backend, and those of functions that it registers as one."""
    wrapper = MetadataWrapper(cst.parse_module(source))
    given = _Given()
    wrapper.visit(given)
    names = {
        name for value, scope in given.found for name in names_read(_assigned(value, scope, wrapper.module) or value)
    }
    for function in _functions(wrapper.module):
        marks = [wrapper.module.code_for_node(each.decorator) for each in function.decorators]
        names |= {function.name.value} if any("register_backend" in mark for mark in marks) else set()
    return names


def _is_builtin(name: str, scope: Scope) -> bool:
    return any(isinstance(each.scope, BuiltinScope) for each in scope[name])


def _is_global(name: str, scope: Scope) -> bool:
    return bool(scope[name]) and all(isinstance(each.scope, (GlobalScope, BuiltinScope)) for each in scope[name])
