"""Edits as replacements of spans of the text, made from edits of nodes, and merged where they do not overlap."""

from __future__ import annotations

import difflib
import itertools
import re
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Protocol

import libcst as cst
from libcst import matchers as m
from libcst.metadata import MetadataWrapper, WhitespaceInclusivePositionProvider

from minifier.repro.source.statement_tree import is_whole


@dataclass(frozen=True, slots=True, order=True)
class Replacement:
    """The text that replaces the characters from `start` up to `end`."""

    start: int
    end: int
    text: str

    @property
    def growth(self) -> int:
        """By how many characters the source grows."""
        return len(self.text) - (self.end - self.start)

    def touches(self, start: int, end: int) -> bool:
        """Return whether the span shares a character with this range, or inserts at the place of an insertion."""
        return (self.start < end and start < self.end) or (self.start, self.end) == (start, end)


@dataclass(frozen=True, slots=True)
class Patch:
    """An edit of a source: disjoint spans in ascending order.

    `moved` has (name of a function, name of the function that its statements are in afterwards).
    """

    spans: tuple[Replacement, ...]
    moved: tuple[tuple[str, str], ...] = ()

    def touches(self, other: Patch) -> bool:
        """Return whether the patches cannot be applied together."""
        return any(a.touches(b.start, b.end) for a in self.spans for b in other.spans)

    def after(self, applied: Patch) -> Patch | None:
        """Return this patch for the source to which another one was applied; None if it replaces something else there.

        What was changed within a span is still replaced.
        """
        spans = [_after(span, applied) for span in self.spans]
        return replace(self, spans=tuple(span for span in spans if span is not None)) if None not in spans else None


def _after(span: Replacement, applied: Patch) -> Replacement | None:
    start, end = span.start, span.end
    for each in applied.spans:
        if each.end <= span.start and (each.start, each.end) != (span.start, span.end):
            start, end = start + each.growth, end + each.growth
        elif span.start <= each.start and each.end <= span.end and (each.start, each.end) != (span.start, span.end):
            end += each.growth
        elif each.touches(span.start, span.end):
            return None
    return Replacement(start, end, span.text)


def merged(patches: Iterable[Patch]) -> Patch:
    """Return patches that do not touch as a single one."""
    together = list(patches)
    spans = sorted(span for patch in together for span in patch.spans)
    return Patch(tuple(spans), tuple(names for patch in together for names in patch.moved))


def alike(source: str, patches: Iterable[Patch]) -> Iterator[Patch]:
    """Yield as one the patches that take away the same, if they do not touch: `.mean()` of two expressions, say."""
    groups = defaultdict[tuple[tuple[str, str], ...], list[Patch]](list)
    for patch in patches:
        key = tuple(_taken_away(source[span.start : span.end], span.text) for span in patch.spans)
        if not any(patch.touches(other) for other in groups[key]):
            groups[key].append(patch)
    yield from (merged(group) for group in groups.values() if len(group) > 1)


def _taken_away(old: str, new: str) -> tuple[str, str]:
    """Return what a replacement takes away and adds; a part that stays may be another in each place."""
    stays = re.search(rf"(?<!\w){re.escape(new)}(?!\w)", old) if new else None
    return (old, new) if stays is None else (f"{old[: stays.start()]}\0{old[stays.end() :]}", "")


def patched(source: str, patch: Patch) -> str:
    """Return the source after the patch."""
    pieces, place = [], 0
    for span in patch.spans:
        pieces += [source[place : span.start], span.text]
        place = span.end
    return "".join([*pieces, source[place:]])


def difference(before: str, after: str) -> Patch:
    """Return a patch that turns a source into another one; it replaces whole words in lines that differ."""
    ours, theirs = before.splitlines(keepends=True), after.splitlines(keepends=True)
    starts = [0]
    for line in ours:
        starts.append(starts[-1] + len(line))
    first = _common(ours, theirs)
    last = _common(ours[first:][::-1], theirs[first:][::-1])
    blocks = difflib.SequenceMatcher(
        None, ours[first : len(ours) - last], theirs[first : len(theirs) - last], autojunk=False
    ).get_opcodes()
    spans: list[Replacement] = []
    for kind, begin, end, new_begin, new_end in blocks:
        if kind != "equal":
            pairs = _pairs(ours[first + begin : first + end], theirs[first + new_begin : first + new_end])
            place = starts[first + begin]
            for old, new in pairs:
                spans += _trimmed(place, old, new)
                place += len(old)
    return Patch(tuple(spans))


def _common(ours: Sequence[str], theirs: Sequence[str]) -> int:
    """Return how many elements both begin with."""
    return sum(1 for _ in itertools.takewhile(bool, map(str.__eq__, ours, theirs)))


def _pairs(old: Sequence[str], new: Sequence[str]) -> list[tuple[str, str]]:
    """Return what replaces what: line by line if there are as many, else all lines at once."""
    return list(zip(old, new, strict=True)) if len(old) == len(new) else [("".join(old), "".join(new))]


def _trimmed(place: int, old: str, new: str) -> Iterator[Replacement]:
    """Yield the span at `place` without what both texts begin and end with, except for parts of words."""
    if old == new:
        return
    begin = _common(old, new)
    while begin and (_is_within_word(old, begin) or _is_within_word(new, begin)):
        begin -= 1
    limit = min(len(old), len(new)) - begin
    tail = min(limit, _common(old[::-1], new[::-1]))
    while tail and (_is_within_word(old, len(old) - tail) or _is_within_word(new, len(new) - tail)):
        tail -= 1
    yield Replacement(place + begin, place + len(old) - tail, new[begin : len(new) - tail])


def _is_within_word(text: str, place: int) -> bool:
    """Return whether the characters on both sides belong to one name or number."""
    sides = text[place - 1 : place], text[place : place + 1]
    return all(side.isalnum() or side == "_" for side in sides)


_NEWLINE = re.compile(r"\r\n|\r|\n")
_ABOVE = re.compile(r"(?:[ \t\f]*(?:#.*)?(?:\r\n|\r|\n))*")  # blank lines and comments ahead of a statement


class Located:
    """A parsed source; edits have to be of its `module`.

    No patch changes a definition whose text is in `whole`, but a patch may move it.
    """

    def __init__(self, source: str, whole: Collection[str] = ()) -> None:
        self.source, self.whole = source, frozenset(whole)
        self.module = cst.parse_module(source)
        wrapper = MetadataWrapper(self.module, unsafe_skip_copy=True)  # a parsed node occurs once
        self._positions = wrapper.resolve(WhitespaceInclusivePositionProvider)
        self._line_starts = [0, *(match.end() for match in _NEWLINE.finditer(source))]
        self._protected = [self._without_margins(self.span(node)) for node in _whole_nodes(self.module, self.whole)]

    def span(self, node: cst.CSTNode) -> Replacement:
        """Return the characters of the node, with the whitespace and the comments that belong to it."""
        place = self._positions[node]
        start = self._line_starts[place.start.line - 1] + place.start.column
        end = self._line_starts[place.end.line - 1] + place.end.column
        return Replacement(start, end, self.source[start:end])

    def _without_margins(self, span: Replacement) -> Replacement:
        above = _ABOVE.match(span.text)
        text = span.text[above.end() if above else 0 :].rstrip()
        start = span.end - len(span.text) + (above.end() if above else 0)
        return Replacement(start, start + len(text), text)

    def patch(self, edited: Edited | Patch) -> Patch | None:
        """Return the edit as a patch; None if it cannot be made, changes nothing, or can only break the script."""
        if isinstance(edited, Patch):
            return self.outside(edited)
        spans = self._replaced(edited) if isinstance(edited, Applied) else None
        if spans is None:
            code = edited.code
            if code is None:
                return None
            spans = difference(self.source, code).spans
        patch = Patch(spans)
        if isinstance(edited, Applied):
            patch = Patch(spans, tuple(edited.moved.items()))
        outside = self.outside(patch)
        if outside != patch and self._moves_only(patched(self.source, patch)):
            return patch
        return outside

    def outside(self, patch: Patch) -> Patch | None:
        """Return the patch without its spans in definitions that stay whole; None if nothing is left."""
        spans = (span for span in patch.spans if not any(span.touches(p.start, p.end) for p in self._protected))
        outside = replace(patch, spans=tuple(spans))
        return outside if outside.spans else None

    def _replaced(self, edited: Applied) -> tuple[Replacement, ...] | None:
        """Return the spans of an edit that replaces expressions; None for other edits."""
        spans: list[Replacement] = []
        for old, new in edited.replacements.items():
            span = self.span(old)
            if self.module.code_for_node(old) != span.text:  # a statement: its lines are indented
                return None
            code = self.module.code_for_node(new)
            if isinstance(old, cst.Call) and isinstance(new, cst.Call) and old.func is new.func:
                spans += _trimmed(span.start, span.text, code)  # of an argument: others go with it
            else:
                spans.append(Replacement(span.start, span.end, code))
        spans.sort()
        is_nested = any(a.end > b.start for a, b in pairwise(spans))
        return None if is_nested else tuple(spans) or None

    def _moves_only(self, code: str) -> bool:
        """Return whether the code still has all definitions that stay whole."""
        try:
            module = cst.parse_module(code)
        except cst.ParserSyntaxError:
            return False
        before, after = (_texts(_whole_nodes(each, self.whole), each) for each in (self.module, module))
        return before <= after


def _whole_nodes(module: cst.Module, whole: Collection[str]) -> list[cst.CSTNode]:
    if not whole:
        return []
    nodes: list[cst.CSTNode] = []
    module.visit(_WholeNodes(module, whole, nodes))
    return nodes


class _WholeNodes(cst.CSTVisitor):
    def __init__(self, module: cst.Module, whole: Collection[str], found: list[cst.CSTNode]) -> None:
        self.module, self.whole, self.found = module, whole, found

    def on_visit(self, node: cst.CSTNode) -> bool:
        if is_whole(self.module, node, self.whole):
            self.found.append(node)
            return False
        return True


def _texts(nodes: Collection[cst.CSTNode], module: cst.Module) -> Counter[str]:
    return Counter(module.code_for_node(node).strip() for node in nodes)


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
