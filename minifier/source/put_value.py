"""Replace a name by an expression, or nodes by other nodes."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
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
    return list(_uses(node, name).found)


def _uses(node: cst.CSTNode, name: str) -> _Uses:
    visitor = _Uses(name)
    node.visit(visitor)
    return visitor


class _Uses(cst.CSTVisitor):
    """Collects the uses of a name. `whole` are statements' values among them, `arguments` the values of arguments."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.found: dict[cst.Name, None] = {}
        self.whole, self.arguments = set[cst.CSTNode](), set[cst.CSTNode]()

    def visit_Name(self, node: cst.Name) -> None:
        if node.value == self.name:
            self.found[node] = None

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        node.value.visit(self)
        return False

    def visit_Arg(self, node: cst.Arg) -> bool:
        if not node.star:
            self.arguments.add(node.value)
        node.value.visit(self)
        return False

    def visit_Param(self, node: cst.Param) -> bool:
        if node.default is not None:
            node.default.visit(self)
        return False

    def visit_AssignTarget(self, node: cst.AssignTarget) -> bool:
        return not isinstance(node.target, cst.Name)

    def visit_Return(self, node: cst.Return) -> None:
        if node.value is not None:
            self.whole.add(node.value)

    def visit_Expr(self, node: cst.Expr) -> None:
        self.whole.add(node.value)

    def visit_Assign(self, node: cst.Assign) -> None:
        self.whole.add(node.value)

    def leave_FunctionDef(self, original_node: cst.FunctionDef) -> None:
        self.found.pop(original_node.name, None)

    def leave_ClassDef(self, original_node: cst.ClassDef) -> None:
        self.found.pop(original_node.name, None)

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


Change = cst.CSTTransformer | Callable[[cst.CSTNode], cst.CSTTransformer]
"""A change of nodes, or a function that returns the change of a node."""


def changed(node: cst.CSTNode, change: Change) -> cst.CSTNode | None:
    """Return the node after the change; None if libcst refuses it, as for a default ahead of a parameter."""
    try:
        result = node.visit(change if isinstance(change, cst.CSTTransformer) else change(node))
    except Exception as error:
        if not is_of_libcst(error):
            raise
        return None
    return result if isinstance(result, cst.CSTNode) else None


def after(module: cst.Module, *changes: Change) -> cst.Module | None:
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

    def __init__(self, module: cst.Module, changes: Sequence[Change], moved: Mapping[str, str] = {}) -> None:
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


def applied(module: cst.Module, *changes: Change, moved: Mapping[str, str] = {}) -> Iterator[Edited]:
    """Yield the module after these changes."""
    yield Applied(module, changes, moved)


def replaced(module: cst.Module, old: cst.CSTNode, new: cst.CSTNode) -> Iterator[Edited]:
    """Yield the module with `new` in place of `old`."""
    yield from applied(module, Changes({old: [new]}))


def put_value(name: str, value: cst.BaseExpression) -> Change:
    """Return the change that puts the value in the place of each use of the name, in parentheses where needed."""

    def changes(node: cst.CSTNode) -> Changes:
        uses = _uses(node, name)
        bare = uses.whole if isinstance(value, _LOOSE) else uses.whole | uses.arguments
        return Changes({use: [value if use in bare else in_parentheses] for use in uses.found})

    in_parentheses = value
    if is_operation(value):
        in_parentheses = value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return changes
