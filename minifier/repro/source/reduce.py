"""Reduce a script: guess and search over statements, inline modules, simplify statements."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass

import libcst as cst
from libcst import matchers as m

from minifier import search
from minifier.capturing.slicing.module_statements import bound_by, root
from minifier.repro.source.edit_search import EditSearch, Lab, Stopped
from minifier.repro.source.edits import smaller_numbers
from minifier.repro.source.modules import with_modules
from minifier.repro.source.passes import (
    COARSE_PASSES,
    FINE_PASSES,
    LAST_PASSES,
    MODULES,
    NUMBERS,
    STATEMENTS,
    SourcePass,
)
from minifier.repro.source.script import CALL_OF_BASE, Edit, Script, imported_names
from minifier.repro.source.statement_tree import Tree, tree_of

_MAX_ROUNDS_WITH_MODULES = 50  # a module that imports itself within a function can be inlined without end


@dataclass(frozen=True, slots=True)
class ReducedSource:
    """The reduced source. `minimal`: removing any statement, with its body, makes the failure vanish."""

    source: str
    statements: int
    minimal: bool


def reduce_source(
    lab: Lab,
    source: str,
    lines: Sequence[int],
    budget: search.Budget,
    folders: Sequence[str] = (),
    wants: Callable[[str], bool] = lambda name: True,
) -> ReducedSource:
    """Reduce a failing source. `lines` are the line numbers in its traceback.

    Definitions from modules in `folders` are inlined where the failure survives that. Besides the removal of
    statements, only the passes are tried whose name `wants` accepts.
    """
    edits = EditSearch(lab, source, budget)
    try:
        _search_statements(edits, lines)
        _simplify(edits, folders, wants)
        minimal = True
    except (KeyboardInterrupt, Stopped):  # what was reached stays
        minimal = False
    return ReducedSource(edits.source, len(tree_of(edits.source, lab.frozen).statements), minimal)


def _search_statements(edits: EditSearch, lines: Sequence[int]) -> None:
    """Remove at once all statements that the traced ones seem not to need, then groups. Raises Stopped."""
    edits.lab.phase = STATEMENTS[0]
    tree = tree_of(edits.source, edits.lab.frozen)
    traced = [number for line in lines if (number := tree.at_line(line)) is not None]
    frozen = [number for number, node in enumerate(tree.statements) if node in tree.frozen]
    likely = tree.code(likely_statements(tree, [*traced, *frozen])) if traced else ""
    is_likely = likely == edits.source or (bool(likely) and edits.takes(likely))
    edits.run(STATEMENTS[0], _removals, is_doubtful=is_likely)  # most of the likely ones are needed


def _simplify(edits: EditSearch, folders: Sequence[str], wants: Callable[[str], bool]) -> None:
    """Make edits until none keeps the failure, and no statement can be removed. Raises Stopped."""
    coarse, fine, last = (
        [each for each in passes if wants(each.name)] for passes in (COARSE_PASSES, FINE_PASSES, LAST_PASSES)
    )
    for _ in range(_MAX_ROUNDS_WITH_MODULES if wants(MODULES[0]) else 0):
        edits.lab.phase = MODULES[0]
        if not any(edits.takes(module.code) for module in with_modules(edits.script.module, folders)):
            break
        _search_statements(edits, ())
    while True:
        before = edits.source
        _to_fixpoint(edits, coarse)
        for each in fine:
            _run(edits, each)
        if wants(NUMBERS[0]):
            edits.lab.phase = NUMBERS[0]
            smaller_numbers(edits.takes, lambda: edits.script)
        if edits.source == before and not edits.reopen() and _is_minimal(edits):
            break
    for each in last:
        edits.run(each.name, each.edits)


def _to_fixpoint(edits: EditSearch, passes: Sequence[SourcePass]) -> None:
    before = ""
    while edits.source != before:
        before = edits.source
        edits.run(*_IDLE)
        edits.run(STATEMENTS[0], _removals, is_doubtful=True)
        for each in passes:
            _run(edits, each)


def _run(edits: EditSearch, source_pass: SourcePass) -> None:
    """Make the edits of a pass, and remove at once what they leave idle: the budget may end with the next pass."""
    before = edits.source
    edits.run(source_pass.name, source_pass.edits)
    if edits.source != before:
        edits.run(*_IDLE)


def _is_minimal(edits: EditSearch) -> bool:
    """Return whether no statement can be removed alone; else remove those that can be. Raises Stopped."""
    before = edits.source
    edits.lab.phase = STATEMENTS[0]
    tree = tree_of(edits.source, edits.lab.frozen)
    numbers = frozenset(range(len(tree.statements)))
    for number in sorted(numbers, reverse=True):
        if edits.takes(tree.code(numbers - {number})):  # not if the block had nothing else: it gets its `pass` again
            numbers -= {number}
    return edits.source == before


def _removals(script: Script) -> Iterator[Edit]:
    """Yield the removal of each statement, the outermost first, of these the last."""
    tree = script.tree
    order = sorted(range(len(tree.statements)), key=lambda number: (len(_around(tree, number)), -number))
    return (Edit({tree.statements[number]: []}) for number in order)


def _idle(script: Script) -> Iterator[Edit]:
    """Yield the removal of each statement that does nothing: nothing reads what it binds, or it only names a value."""
    tree = script.tree
    read = {binder for reader, _, binders in tree.reads for binder in binders if binder != reader}
    attributes = _Attributes(tree).read
    for number, node in enumerate(tree.statements):
        names = _bound(node, script.imported)
        is_unread = number not in read and not any(
            name in _CALLED_UNNAMED or name.startswith("__") or name in attributes for name in names
        )
        is_value = isinstance(node, cst.Expr) and not m.findall(node, m.Call() | m.Await() | m.Yield())
        if is_value or (names and is_unread):
            yield Edit({node: []})


def _bound(node: cst.CSTNode, imported: Collection[str]) -> set[str]:
    """Return the names and attributes that the statement binds; empty if it does more, like a change of a module."""
    if isinstance(node, (cst.FunctionDef, cst.ClassDef)):
        return set() if node.decorators else {node.name.value}
    if isinstance(node, (cst.Import, cst.ImportFrom)) and not isinstance(node.names, cst.ImportStar):
        return set(map(bound_by, node.names))
    targets = [each.target for each in node.targets] if isinstance(node, cst.Assign) else []
    parts = [part for t in targets for part in ([e.value for e in t.elements] if isinstance(t, cst.Tuple) else [t])]
    if any(not isinstance(part, (cst.Name, cst.Attribute)) or root(part) in imported for part in parts):
        return set()
    return {part.attr.value if isinstance(part, cst.Attribute) else root(part) for part in parts}


_IDLE = f"idle {STATEMENTS[0]}", _idle

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
            is_needed = not is_partial or m.matches(node, m.Return() | CALL_OF_BASE)
        if is_needed:
            needs[around].add(number)
    for reader, _, binders in tree.reads:
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
        is_beside = tree.enclosing[number] is None or tree.enclosing[number] in on_the_way
        if is_beside and isinstance(changed, (cst.Attribute, cst.Call)) and root(changed) in imported:
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
