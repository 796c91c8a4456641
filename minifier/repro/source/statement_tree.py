"""A script as removable statements at all depths."""

from __future__ import annotations

import ast
import contextlib
import functools
import sys
import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import libcst as cst
from libcst.metadata import MetadataWrapper, ParentNodeProvider, PositionProvider, Scope, ScopeProvider

from minifier.capturing.slicing.module_statements import root

_MAX_FRAMES = 10_000  # a chain of 1,000 calls
ORDINARY_FRAMES = sys.getrecursionlimit()  # as a script has it


class Tree:
    """The statements of a source text, numbered in source order.

    A nested statement is kept only with its parent. A statement whose text is in `frozen` is a single one; so is each
    function with `whole_functions`. With `entries`, those of dicts and lists are numbered like statements.
    Raises libcst.ParserSyntaxError for source that is not Python.
    """

    def __init__(
        self, source: str, frozen: Collection[str] = (), *, whole_functions: bool = False, entries: bool = False
    ) -> None:
        with deep_sources():
            self._number_statements(source, frozen, whole_functions, entries)

    def _number_statements(self, source: str, frozen: Collection[str], whole_functions: bool, entries: bool) -> None:
        wrapper = MetadataWrapper(cst.parse_module(source), unsafe_skip_copy=True)  # a parsed node occurs once
        self.module = wrapper.module
        self._positions, self._lines = wrapper.resolve(PositionProvider), source.splitlines()
        self.parent_node: Mapping[cst.CSTNode, cst.CSTNode] = wrapper.resolve(ParentNodeProvider)
        collector = _StatementCollector(
            lambda node: bool(frozen) and self.text(node) in frozen, whole_functions, entries
        )
        self.module.visit(collector)
        self.statements: list[cst.CSTNode] = collector.statements
        self._whole = collector.whole
        self.frozen: set[cst.CSTNode] = collector.frozen
        self._number: dict[cst.CSTNode, int] = {node: i for i, node in enumerate(self.statements)}
        self._codes: dict[tuple[int, frozenset[int]], str] = {}  # of the module's statements
        self._spans = [self._span(node) for node in self.statements]
        places: dict[cst.CSTNode, int] = {node: place for place, node in enumerate(self.module.body)}
        inside = [set[int]() for _ in self.module.body]
        for number, node in enumerate(self.statements):
            outermost = node
            while outermost not in places:
                outermost = self.parent_node[outermost]
            inside[places[outermost]].add(number)
        self._inside = [frozenset(numbers) for numbers in inside]
        self._parents = [set[int]() for _ in self.statements]
        for number, node in enumerate(self.statements):
            parent = self.owner(self.parent_node[node])
            if parent is not None:
                self._parents[number].add(parent)
        self.enclosing = tuple(next(iter(numbers), None) for numbers in self._parents)
        self.reads = list(self._accesses(wrapper.resolve(ScopeProvider)))
        for reader, _, binders in self.reads:
            self._parents[reader] |= {binder for binder in binders if binder < reader}

    def _span(self, node: cst.CSTNode) -> tuple[int, int]:
        """Return the first line of a statement, that of its decorators, and the last."""
        first = next(iter(getattr(node, "decorators", ())), node)
        return self._positions[first].start.line, self._positions[node].end.line

    def text(self, statement: cst.CSTNode) -> str:
        """Return the lines of a statement as `texts_of` has them."""
        return _dedented(self._lines, *self._span(statement))

    def _accesses(self, scopes: Mapping[cst.CSTNode, Scope | None]) -> Iterator[tuple[int, str, frozenset[int]]]:
        """Yield (number of the statement that reads a name, name, numbers of the statements that may bind it)."""
        for scope in {scope for scope in scopes.values() if scope is not None}:
            for access in scope.accesses:
                reader = self.owner(access.node)
                bound = (getattr(referent, "node", None) for referent in access.referents)
                binders = (self.owner(node) for node in bound if node is not None)
                if reader is not None:
                    yield reader, root(access.node), frozenset(binder for binder in binders if binder is not None)

    def owner(self, node: cst.CSTNode) -> int | None:
        """Return the number of the innermost statement that contains the node."""
        while node not in self._number:
            if node not in self.parent_node:
                return None
            node = self.parent_node[node]
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
        survivors = frozenset(chosen)
        inside = [self._code_of(place, survivors & numbers) for place, numbers in enumerate(self._inside)]
        margins = [
            [self.module.code_for_node(line) for line in lines] for lines in (self.module.header, self.module.footer)
        ]
        code = "".join([*margins[0], *inside, *margins[1]])
        return code if self.module.has_trailing_newline else code.removesuffix(self.module.default_newline)

    def _code_of(self, place: int, chosen: frozenset[int]) -> str:
        """Return the module's statement at this place with the chosen statements only."""
        key = place, chosen
        if key not in self._codes:
            survivors = {self.statements[i] for i in chosen}
            with deep_sources():
                reduced = self.module.body[place].visit(_RemoveOthers(survivors, self._number, self._whole))
                self._codes[key] = self.module.code_for_node(reduced) if isinstance(reduced, cst.CSTNode) else ""
        return self._codes[key]


_kept_tree = functools.lru_cache(maxsize=4)(Tree)


def tree_of(source: str, frozen: Collection[str]) -> Tree:
    """Return the tree of a source, which several steps of the search ask for."""
    return _kept_tree(source, frozenset(frozen))


def texts_of(source: str) -> list[tuple[range, str]]:
    """Return the lines of each statement at all depths, and their text without its indentation.

    Raises SyntaxError or ValueError for a source that is not Python.
    """
    lines, found = source.splitlines(), []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt):
            first = min((node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))))
            last = node.end_lineno or first
            found.append((range(first, last + 1), _dedented(lines, first, last)))
    return found


def _dedented(lines: Sequence[str], first: int, last: int) -> str:
    return textwrap.dedent("\n".join(lines[first - 1 : last])).strip()


class _StatementCollector(cst.CSTVisitor):
    def __init__(self, is_frozen: Callable[[cst.CSTNode], bool], whole_functions: bool, entries: bool) -> None:
        self.is_frozen, self.whole_functions, self.entries = is_frozen, whole_functions, entries
        self.statements: list[cst.CSTNode] = []
        self.whole: set[cst.CSTNode] = set()
        self.frozen: set[cst.CSTNode] = set()

    def on_visit(self, node: cst.CSTNode) -> bool:
        is_statement = isinstance(node, (cst.BaseSmallStatement, cst.BaseCompoundStatement))
        if is_statement:
            self.statements.append(node)
        elif self.entries and isinstance(node, (cst.Dict, cst.List)):
            self.statements += node.elements
        if is_statement and self.is_frozen(node):
            self.frozen.add(node)
        if node in self.frozen or (isinstance(node, cst.FunctionDef) and self.whole_functions):
            self.whole.add(node)
            return False
        return True


class _RemoveOthers(cst.CSTTransformer):
    """Removes the statements and entries that do not survive; a required empty block gets a `pass`."""

    def __init__(
        self, survivors: Collection[cst.CSTNode], numbered: Collection[cst.CSTNode], whole: Collection[cst.CSTNode]
    ) -> None:
        super().__init__()
        self.survivors, self.numbered, self.whole = survivors, numbered, whole
        self._required: set[cst.CSTNode] = set()  # a `finally` without which the `try` has nothing but its body

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.Try) and node.finalbody is not None and not node.handlers:
            self._required.add(node.finalbody)
        return node not in self.whole

    def on_leave(  # type: ignore[override]
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode | cst.RemovalSentinel:
        if original_node in self.numbered and original_node not in self.survivors:
            return cst.RemoveFromParent()
        if isinstance(updated_node, (cst.Else, cst.Finally)) and _is_empty(updated_node.body):
            return updated_node if original_node in self._required else cst.RemoveFromParent()
        return mended(original_node, updated_node)


# Lists of children with commas between.
_LISTS = ("args", "bases", "keywords", "elements", "names", "items", "slice", "params", "kwonly_params")


def mended(original: cst.CSTNode, updated: cst.CSTNode) -> cst.CSTNode | cst.RemovalSentinel:
    """Return a node that has lost children as a person would write it: with `pass`, without the last comma."""
    if isinstance(original, (cst.Dict, cst.List)) and isinstance(updated, (cst.Dict, cst.List)):
        return _with_last_comma(original, updated)
    if isinstance(updated, cst.SimpleStatementLine) and not updated.body:
        return cst.RemoveFromParent()
    if isinstance(updated, (cst.SimpleStatementLine, cst.SimpleStatementSuite)) and updated.body:
        *others, last = updated.body
        if isinstance(last.semicolon, cst.Semicolon):  # of a statement behind it that is gone
            return updated.with_changes(body=[*others, last.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)])
    if isinstance(updated, cst.IndentedBlock) and not updated.body:
        return updated.with_changes(body=[cst.SimpleStatementLine([cst.Pass()])])
    if isinstance(updated, cst.SimpleStatementSuite) and not updated.body:
        return updated.with_changes(body=[cst.Pass()])
    for name in _LISTS:
        before, children = getattr(original, name, ()), getattr(updated, name, ())
        if isinstance(children, (list, tuple)) and children and len(children) < len(before):
            last = children[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
            updated = updated.with_changes(**{name: [*children[:-1], last]})
    if isinstance(updated, cst.ClassDef) and updated.bases and not updated.keywords:
        base = updated.bases[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        updated = updated.with_changes(bases=[*updated.bases[:-1], base])
    if isinstance(updated, cst.Return) and updated.value is None:
        return updated.with_changes(whitespace_after_return=cst.MaybeSentinel.DEFAULT)
    if isinstance(updated, cst.Param) and updated.default is None:
        return updated.with_changes(equal=cst.MaybeSentinel.DEFAULT)
    return updated


def _with_last_comma(original: cst.Dict | cst.List, updated: cst.Dict | cst.List) -> cst.Dict | cst.List:
    """Let the last entry end as the last one did, with a comma or without. It keeps the comment behind it."""
    if not updated.elements or len(updated.elements) == len(original.elements):
        return updated
    *others, last = updated.elements
    own, ended = last.comma, original.elements[-1].comma
    if isinstance(own, cst.Comma) and isinstance(ended, cst.Comma) and own.deep_equals(ended):
        return updated
    bracket = "rbrace" if isinstance(updated, cst.Dict) else "rbracket"
    closing: cst.RightCurlyBrace | cst.RightSquareBracket = getattr(updated, bracket)
    before, after = closing.whitespace_before, own.whitespace_after if isinstance(own, cst.Comma) else None
    if isinstance(before, cst.ParenthesizedWhitespace):  # the comment behind the last entry belongs to the bracket
        line = after.first_line if isinstance(after, cst.ParenthesizedWhitespace) else cst.TrailingWhitespace()
        closing = closing.with_changes(whitespace_before=before.with_changes(first_line=line))
    return updated.with_changes(elements=[*others, last.with_changes(comma=ended)], **{bracket: closing})


def _is_empty(body: cst.BaseSuite) -> bool:
    """Return whether a block has nothing but `pass`."""
    return all(
        isinstance(statement, cst.Pass)
        for line in body.body
        for statement in (line.body if isinstance(line, cst.SimpleStatementLine) else [line])
    )


@contextlib.contextmanager
def deep_sources() -> Iterator[None]:
    """Allow deep recursion in the block. A process that runs a script in it has to set `ORDINARY_FRAMES`."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, _MAX_FRAMES))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
