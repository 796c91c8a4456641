"""A script as statements, at all depths, each of which can be left out."""

from __future__ import annotations

from collections.abc import Collection

import libcst as cst
from libcst.metadata import MetadataWrapper, ParentNodeProvider, PositionProvider, ScopeProvider

Statement = cst.BaseSmallStatement | cst.BaseCompoundStatement


class Tree:
    """The statements of a source text, numbered in the order in which they stand. One that stands in another is there
    only with that one; those in a definition whose text is among the `whole` ones are part of it. Raises
    libcst.ParserSyntaxError for what is not Python."""

    def __init__(self, source: str, whole: Collection[str] = ()) -> None:
        wrapper = MetadataWrapper(cst.parse_module(source))
        self.module = wrapper.module
        collected = _StatementCollector(self.module, frozenset(whole))
        self.module.visit(collected)
        self.statements: list[Statement] = collected.found
        self._whole = collected.whole
        self._above = wrapper.resolve(ParentNodeProvider)
        self._number: dict[cst.CSTNode, int] = {node: i for i, node in enumerate(self.statements)}
        positions = wrapper.resolve(PositionProvider)
        self._spans = [(positions[node].start.line, positions[node].end.line) for node in self.statements]
        self._parents = [set[int]() for _ in self.statements]
        for number, node in enumerate(self.statements):
            outer = self.owner(self._above[node])
            if outer is not None:
                self._parents[number].add(outer)
        for scope in {scope for scope in wrapper.resolve(ScopeProvider).values() if scope is not None}:
            for access in scope.accesses:
                reader = self.owner(access.node)
                for referent in access.referents:
                    bound = getattr(referent, "node", None)
                    binder = self.owner(bound) if bound is not None else None
                    if reader is not None and binder is not None and binder < reader:
                        self._parents[reader].add(binder)

    def owner(self, node: cst.CSTNode) -> int | None:
        """The number of the innermost statement that a node is part of."""
        while node not in self._number:
            if node not in self._above:
                return None
            node = self._above[node]
        return self._number[node]

    @property
    def parents(self) -> tuple[tuple[int, ...], ...]:
        """For each statement, earlier ones: that which it stands in, and those that bind what it reads."""
        return tuple(tuple(sorted(each)) for each in self._parents)

    @property
    def kinds(self) -> tuple[str, ...]:
        """What each statement is, for the purpose of repetition."""
        return tuple(
            type(node).__name__ if isinstance(node, cst.BaseCompoundStatement) else self.module.code_for_node(node)
            for node in self.statements
        )

    def at_line(self, line: int) -> int | None:
        """The innermost statement that stands at this line."""
        found = [i for i, (first, last) in enumerate(self._spans) if first <= line <= last]
        return found[-1] if found else None

    def code(self, chosen: Collection[int]) -> str:
        """The source with these statements alone, where what they stand in is among them."""
        kept = {self.statements[i] for i in chosen}
        made = self.module.visit(_Keeper(kept, self._whole))
        assert isinstance(made, cst.Module)
        return made.code


class _StatementCollector(cst.CSTVisitor):
    def __init__(self, module: cst.Module, texts: Collection[str]) -> None:
        self.module, self.texts = module, texts
        self.found: list[Statement] = []
        self.whole: set[Statement] = set()

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, (cst.BaseSmallStatement, cst.BaseCompoundStatement)):
            self.found.append(node)
        if isinstance(node, (cst.FunctionDef, cst.ClassDef)) and definition(self.module, node) in self.texts:
            self.whole.add(node)
            return False
        return True


def definition(module: cst.Module, node: cst.FunctionDef | cst.ClassDef) -> str:
    """The text of a definition, without what stands above it."""
    return module.code_for_node(node.with_changes(leading_lines=())).strip()


class _Keeper(cst.CSTTransformer):
    def __init__(self, kept: Collection[Statement], whole: Collection[Statement]) -> None:
        super().__init__()
        self.kept, self.whole = kept, whole

    def on_visit(self, node: cst.CSTNode) -> bool:
        return node not in self.whole

    def on_leave(  # type: ignore[override]
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode | cst.RemovalSentinel:
        is_statement = isinstance(original_node, (cst.BaseSmallStatement, cst.BaseCompoundStatement))
        if is_statement and original_node not in self.kept:
            return cst.RemoveFromParent()
        if isinstance(updated_node, cst.SimpleStatementLine) and not updated_node.body:
            return cst.RemoveFromParent()
        if isinstance(updated_node, cst.IndentedBlock) and not updated_node.body:
            return updated_node.with_changes(body=[cst.SimpleStatementLine([cst.Pass()])])
        if isinstance(updated_node, cst.SimpleStatementSuite) and not updated_node.body:
            return updated_node.with_changes(body=[cst.Pass()])
        if isinstance(updated_node, (cst.Else, cst.Finally)) and _is_empty(updated_node.body):
            return cst.RemoveFromParent()
        return updated_node


def _is_empty(body: cst.BaseSuite) -> bool:
    """Whether a block is there to be empty only."""
    lines = [
        part for line in body.body for part in (line.body if isinstance(line, cst.SimpleStatementLine) else [line])
    ]
    return all(isinstance(part, cst.Pass) for part in lines)
