"""A script as removable statements at all depths."""

from __future__ import annotations

from collections.abc import Collection

import libcst as cst
from libcst.metadata import MetadataWrapper, ParentNodeProvider, PositionProvider, ScopeProvider

Statement = cst.BaseSmallStatement | cst.BaseCompoundStatement


class Tree:
    """The statements of a source text, numbered in source order.

    A nested statement is kept only with its parent. A definition whose text is in `whole` is a single statement.
    Raises libcst.ParserSyntaxError for source that is not Python.
    """

    def __init__(self, source: str, whole: Collection[str] = ()) -> None:
        wrapper = MetadataWrapper(cst.parse_module(source))
        self.module = wrapper.module
        collector = _StatementCollector(self.module, frozenset(whole))
        self.module.visit(collector)
        self.statements: list[Statement] = collector.statements
        self._whole = collector.whole
        self._parent_node = wrapper.resolve(ParentNodeProvider)
        self._number: dict[cst.CSTNode, int] = {node: i for i, node in enumerate(self.statements)}
        positions = wrapper.resolve(PositionProvider)
        self._spans = [(positions[node].start.line, positions[node].end.line) for node in self.statements]
        self._parents = [set[int]() for _ in self.statements]
        for number, node in enumerate(self.statements):
            parent = self.owner(self._parent_node[node])
            if parent is not None:
                self._parents[number].add(parent)
        for scope in {scope for scope in wrapper.resolve(ScopeProvider).values() if scope is not None}:
            for access in scope.accesses:
                reader = self.owner(access.node)
                for referent in access.referents:
                    bound = getattr(referent, "node", None)
                    binder = self.owner(bound) if bound is not None else None
                    if reader is not None and binder is not None and binder < reader:
                        self._parents[reader].add(binder)

    def owner(self, node: cst.CSTNode) -> int | None:
        """Return the number of the innermost statement that contains the node."""
        while node not in self._number:
            if node not in self._parent_node:
                return None
            node = self._parent_node[node]
        return self._number[node]

    @property
    def parents(self) -> tuple[tuple[int, ...], ...]:
        """For each statement, the enclosing statement and the earlier statements that bind its names."""
        return tuple(tuple(sorted(numbers)) for numbers in self._parents)

    @property
    def kinds(self) -> tuple[str, ...]:
        """For each statement a text that is equal for repeated statements."""
        return tuple(
            type(node).__name__ if isinstance(node, cst.BaseCompoundStatement) else self.module.code_for_node(node)
            for node in self.statements
        )

    def at_line(self, line: int) -> int | None:
        """Return the number of the innermost statement at this line."""
        numbers = [i for i, (first, last) in enumerate(self._spans) if first <= line <= last]
        return numbers[-1] if numbers else None

    def code(self, chosen: Collection[int]) -> str:
        """Return the source with the chosen statements only; statements with an unchosen parent are absent too."""
        survivors = {self.statements[i] for i in chosen}
        reduced = self.module.visit(_RemoveOthers(survivors, self._whole))
        assert isinstance(reduced, cst.Module)
        return reduced.code


class _StatementCollector(cst.CSTVisitor):
    def __init__(self, module: cst.Module, texts: Collection[str]) -> None:
        self.module, self.texts = module, texts
        self.statements: list[Statement] = []
        self.whole: set[Statement] = set()

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, (cst.BaseSmallStatement, cst.BaseCompoundStatement)):
            self.statements.append(node)
        if isinstance(node, (cst.FunctionDef, cst.ClassDef)) and definition(self.module, node) in self.texts:
            self.whole.add(node)
            return False
        return True


def definition(module: cst.Module, node: cst.FunctionDef | cst.ClassDef) -> str:
    """Return the text of a definition, without the comments above it."""
    return module.code_for_node(node.with_changes(leading_lines=())).strip()


class _RemoveOthers(cst.CSTTransformer):
    """Removes the statements that do not survive; a required empty block gets a `pass`."""

    def __init__(self, survivors: Collection[Statement], whole: Collection[Statement]) -> None:
        super().__init__()
        self.survivors, self.whole = survivors, whole
        self._required: set[cst.CSTNode] = set()  # a `finally` without which the `try` has nothing but its body

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.Try) and node.finalbody is not None and not node.handlers:
            self._required.add(node.finalbody)
        return node not in self.whole

    def on_leave(  # type: ignore[override]
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode | cst.RemovalSentinel:
        is_statement = isinstance(original_node, (cst.BaseSmallStatement, cst.BaseCompoundStatement))
        if is_statement and original_node not in self.survivors:
            return cst.RemoveFromParent()
        if isinstance(updated_node, cst.SimpleStatementLine) and not updated_node.body:
            return cst.RemoveFromParent()
        if isinstance(updated_node, (cst.SimpleStatementLine, cst.SimpleStatementSuite)) and updated_node.body:
            *others, last = updated_node.body
            if isinstance(last.semicolon, cst.Semicolon):  # of a statement behind it that is gone
                return updated_node.with_changes(body=[*others, last.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)])
        if isinstance(updated_node, cst.IndentedBlock) and not updated_node.body:
            return updated_node.with_changes(body=[cst.SimpleStatementLine([cst.Pass()])])
        if isinstance(updated_node, cst.SimpleStatementSuite) and not updated_node.body:
            return updated_node.with_changes(body=[cst.Pass()])
        if isinstance(updated_node, (cst.Else, cst.Finally)) and _is_empty(updated_node.body):
            return updated_node if original_node in self._required else cst.RemoveFromParent()
        return updated_node


def _is_empty(body: cst.BaseSuite) -> bool:
    """Return whether a block has nothing but `pass`."""
    return all(
        isinstance(statement, cst.Pass)
        for line in body.body
        for statement in (line.body if isinstance(line, cst.SimpleStatementLine) else [line])
    )
