"""Guess which statements of a script its failure needs: the traced ones, and what these read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator

import libcst as cst
from libcst import matchers as m

from minifier.source.statement_edits import imported_names
from minifier.source.tree import Tree

_CALL_OF_BASE = m.Expr(m.Call(func=m.Attribute(value=m.Call(func=m.Name("super")))))

_INIT = m.FunctionDef(name=m.Name("__init__"))
_CALLED_UNNAMED = ("__init__", "__call__", "forward")


def likely_statements(tree: Tree, traced: Collection[int]) -> frozenset[int]:
    """Return the traced statements with the statements around them, and those that these most likely need.

    Of the statements that bind a name the nearest above the reader counts; none for a parameter. An attribute needs the
    methods and the assignments of its name, a class the methods that are called without their names. A function with
    traced statements, like `__init__`, needs its returns and its call of the base class; any other function everything
    in it. Settings of imported modules are needed.
    """
    on_the_way = set[int]().union(*(_around(tree, number) for number in traced))
    needs = _needs(tree, on_the_way)
    likely, rim = set[int](), {*traced, *_settings(tree, on_the_way)}
    while rim:
        likely |= rim
        rim = set().union(*(needs[number] for number in rim)) - likely
    return frozenset(likely)


def _needs(tree: Tree, on_the_way: Collection[int]) -> dict[int, set[int]]:
    """Return what each statement needs. `on_the_way` are the statements around the traced ones."""
    needs: dict[int, set[int]] = defaultdict(set)
    for number, around in enumerate(tree.enclosing):
        if around is None:
            continue
        node = tree.statements[number]
        needs[number].add(around)
        if isinstance(tree.statements[around], cst.ClassDef):
            is_needed = isinstance(node, cst.FunctionDef) and node.name.value in _CALLED_UNNAMED
        else:
            is_partial = around in on_the_way or m.matches(tree.statements[around], _INIT)
            is_needed = not is_partial or m.matches(node, m.Return() | _CALL_OF_BASE)
        if is_needed:
            needs[around].add(number)
    for reader, binders in tree.reads:
        if binders and not binders & _around(tree, reader):
            needs[reader].add(max((binder for binder in binders if binder < reader), default=max(binders)))
    attributes = _Attributes(tree)
    for name, readers in attributes.read.items():
        for reader in readers:
            needs[reader] |= attributes.bound.get(name, set())
    return needs


def _around(tree: Tree, number: int) -> set[int]:
    """Return the statements around this one."""
    numbers, around = set(), tree.enclosing[number]
    while around is not None:
        numbers.add(around)
        around = tree.enclosing[around]
    return numbers


def _settings(tree: Tree, on_the_way: Collection[int]) -> Iterator[int]:
    """Yield the statements beside the traced ones that set or call something of an imported module for its effect."""
    imported = imported_names(tree.module)
    for number, node in enumerate(tree.statements):
        changed: cst.BaseExpression | None = node.targets[0].target if isinstance(node, cst.Assign) else None
        if isinstance(node, cst.Expr) and isinstance(node.value, cst.Call):
            changed = node.value.func
        root: cst.CSTNode | None = changed
        while isinstance(root, (cst.Attribute, cst.Call)):
            root = root.value if isinstance(root, cst.Attribute) else root.func
        is_beside = tree.enclosing[number] is None or tree.enclosing[number] in on_the_way
        if is_beside and root is not changed and isinstance(root, cst.Name) and root.value in imported:
            yield number


class _Attributes(cst.CSTVisitor):
    """Collects the statements that bind each attribute, and those that read it."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.bound, self.read = defaultdict[str, set[int]](set), defaultdict[str, set[int]](set)
        self._targets = 0
        tree.module.visit(self)

    def visit_AssignTarget(self, node: cst.AssignTarget) -> None:
        self._targets += 1

    def leave_AssignTarget(self, original_node: cst.AssignTarget) -> None:
        self._targets -= 1

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        for method in node.body.body:
            if isinstance(method, cst.FunctionDef) and (number := self.tree.owner(method)) is not None:
                self.bound[method.name.value].add(number)

    def visit_Attribute(self, node: cst.Attribute) -> None:
        number = self.tree.owner(node)
        if number is not None:
            (self.bound if self._targets else self.read)[node.attr.value].add(number)
