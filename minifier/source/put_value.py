"""Replace a name by an expression, or nodes by other nodes."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Protocol

import libcst as cst
from libcst import matchers as m

EVALUATED_LATER = m.Lambda() | m.ListComp() | m.SetComp() | m.DictComp() | m.GeneratorExp()
_LOOSE = cst.NamedExpr, cst.Yield, cst.Tuple  # need parentheses in an argument, too
_OPERATIONS = cst.BinaryOperation, cst.BooleanOperation, cst.Comparison, cst.UnaryOperation, cst.IfExp, cst.Lambda


def is_operation(value: cst.BaseExpression) -> bool:
    """Return whether the expression needs parentheses within another expression."""
    return isinstance(value, (*_OPERATIONS, *_LOOSE)) and not value.lpar


def uses_of(node: cst.CSTNode, name: str) -> list[cst.Name]:
    """Return the places that read the variable: neither an attribute nor a keyword, a parameter or a target."""
    visitor = _Uses(name)
    node.visit(visitor)
    return visitor.found


class _Uses(cst.CSTVisitor):
    def __init__(self, name: str) -> None:
        self.name = name
        self.found: list[cst.Name] = []

    def visit_Name(self, node: cst.Name) -> None:
        if node.value == self.name:
            self.found.append(node)

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        node.value.visit(self)
        return False

    def visit_Arg(self, node: cst.Arg) -> bool:
        node.value.visit(self)
        return False

    def visit_Param(self, node: cst.Param) -> bool:
        if node.default is not None:
            node.default.visit(self)
        return False

    def visit_AssignTarget(self, node: cst.AssignTarget) -> bool:
        return not isinstance(node.target, cst.Name)

    def leave_FunctionDef(self, original_node: cst.FunctionDef) -> None:
        self.found = [use for use in self.found if use is not original_node.name]

    def leave_ClassDef(self, original_node: cst.ClassDef) -> None:
        self.found = [use for use in self.found if use is not original_node.name]

    def visit_Import(self, node: cst.Import) -> bool:
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        return False


class Changes(cst.CSTTransformer):
    """Replaces nodes by the given nodes; an empty list removes a node."""

    def __init__(self, changes: Mapping[cst.CSTNode, Sequence[cst.CSTNode]]) -> None:
        super().__init__()
        self.changes = changes

    def on_leave(  # type: ignore[override]
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode | cst.FlattenSentinel[cst.CSTNode] | cst.RemovalSentinel:
        nodes = self.changes.get(original_node)
        if nodes is None:
            return updated_node
        return nodes[0] if len(nodes) == 1 else cst.FlattenSentinel(nodes) if nodes else cst.RemoveFromParent()


def is_of_libcst(error: Exception) -> bool:
    """Whether libcst raised the error: it refuses edits with errors of many types, its own bugs among them."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return str(frame.f_globals.get("__name__")).partition(".")[0] == cst.__name__


def changed(node: cst.CSTNode, change: cst.CSTTransformer) -> cst.CSTNode | None:
    """Return the node after the change; None if libcst refuses it, as for a default ahead of a parameter."""
    try:
        result = node.visit(change)
    except Exception as error:
        if not is_of_libcst(error):
            raise
        return None
    return result if isinstance(result, cst.CSTNode) else None


def after(module: cst.Module, *changes: cst.CSTTransformer) -> cst.Module | None:
    """Return the module after these changes; None if libcst refuses one."""
    for change in changes:
        result = changed(module, change)
        if not isinstance(result, cst.Module):
            return None
        module = result
    return module


class Edited(Protocol):
    """A module after an edit. `code` is None if libcst refuses the edit."""

    @property
    def code(self) -> str | None:
        """The source."""


class Applied:
    """A module after changes, which are made when its code is asked for: most edits need only their replacements.

    `moved` has the names of functions, and of those that their statements are in after the changes.
    """

    def __init__(
        self, module: cst.Module, changes: Sequence[cst.CSTTransformer], moved: Mapping[str, str] = {}
    ) -> None:
        self._module, self._changes, self.moved = module, changes, moved

    @cached_property
    def code(self) -> str | None:
        """The source."""
        module = after(self._module, *self._changes)
        return None if module is None else module.code

    @property
    def replacements(self) -> Mapping[cst.CSTNode, cst.CSTNode]:
        """The node in the place of each changed node; empty for other changes."""
        (change, *others) = self._changes
        if others or not isinstance(change, Changes) or any(len(nodes) != 1 for nodes in change.changes.values()):
            return {}
        return {old: nodes[0] for old, nodes in change.changes.items()}


def applied(module: cst.Module, *changes: cst.CSTTransformer, moved: Mapping[str, str] = {}) -> Iterator[Edited]:
    """Yield the module after these changes."""
    yield Applied(module, changes, moved)


def replaced(module: cst.Module, old: cst.CSTNode, new: cst.CSTNode) -> Iterator[Edited]:
    """Yield the module with `new` in place of `old`."""
    yield from applied(module, Changes({old: [new]}))


class PutValue(cst.CSTTransformer):
    """Replaces each use of the name by the value; an operation gets parentheses where needed."""

    def __init__(self, name: str, value: cst.BaseExpression) -> None:
        super().__init__()
        self.name, self.value = name, value

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.BaseExpression:
        if original_node.value != self.name:
            return updated_node
        if is_operation(self.value):
            return self.value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
        return self.value

    def _whole(
        self, original: cst.BaseExpression | None, updated: cst.BaseExpression | None
    ) -> cst.BaseExpression | None:
        is_name = isinstance(original, cst.Name) and original.value == self.name
        return self.value if is_name else updated

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.Attribute:
        return updated_node.with_changes(attr=original_node.attr)

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:
        is_loose = bool(original_node.star) or isinstance(self.value, _LOOSE)
        value = updated_node.value if is_loose else self._whole(original_node.value, updated_node.value)
        return updated_node.with_changes(keyword=original_node.keyword, value=value)

    def leave_Return(self, original_node: cst.Return, updated_node: cst.Return) -> cst.Return:
        return updated_node.with_changes(value=self._whole(original_node.value, updated_node.value))

    def leave_Expr(self, original_node: cst.Expr, updated_node: cst.Expr) -> cst.Expr:
        return updated_node.with_changes(value=self._whole(original_node.value, updated_node.value))

    def leave_Assign(self, original_node: cst.Assign, updated_node: cst.Assign) -> cst.Assign:
        return updated_node.with_changes(value=self._whole(original_node.value, updated_node.value))

    def leave_Param(self, original_node: cst.Param, updated_node: cst.Param) -> cst.Param:
        return updated_node.with_changes(name=original_node.name)

    def leave_AssignTarget(self, original_node: cst.AssignTarget, updated_node: cst.AssignTarget) -> cst.AssignTarget:
        is_name = isinstance(original_node.target, cst.Name)
        return original_node if is_name else updated_node

    def leave_FunctionDef(self, original_node: cst.FunctionDef, updated_node: cst.FunctionDef) -> cst.FunctionDef:
        return updated_node.with_changes(name=original_node.name)

    def leave_ClassDef(self, original_node: cst.ClassDef, updated_node: cst.ClassDef) -> cst.ClassDef:
        return updated_node.with_changes(name=original_node.name)

    def visit_Import(self, node: cst.Import) -> bool:
        return False

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        return False
