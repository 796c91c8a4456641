"""The last edits of a script, which change no statement: short names, and no comments."""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Iterator

import libcst as cst
from libcst import matchers as m

from minifier.source.located import Located
from minifier.source.patches import Patch, Replacement
from minifier.source.put_value import Edited, applied

_MAX_CHARACTERS = 8  # of a name that stays
_FUNCTIONS, _CLASSES, _VARIABLES = "fghpqrs", "ABCDEFG", "xyzabcuvwnmkij"


def short_names(located: Located) -> Iterator[Patch]:
    """Yield the renaming of each long name of the script's own, everywhere at once.

    Names that are imported, or read as an attribute or a keyword anywhere, stay.
    """
    visitor = _BoundNames()
    located.module.visit(visitor)
    taken = {*visitor.uses, *visitor.fixed, *dir(builtins), *keyword.kwlist}
    for name, choices in visitor.bound.items():
        new = next((choice for choice in choices if choice not in taken), None)
        if new is None or len(name) <= _MAX_CHARACTERS or name in visitor.fixed or name.startswith("__"):
            continue
        taken.add(new)
        spans = tuple(_span(located, use, new) for use in visitor.uses[name])
        moved = ((name, new),) if choices is _FUNCTIONS else ()
        yield Patch(tuple(sorted(spans)), moved)


def _span(located: Located, node: cst.Name, new: str) -> Replacement:
    span = located.span(node)
    start = span.start + span.text.index(node.value)  # ahead of it there may be parentheses
    return Replacement(start, start + len(node.value), new)


class _BoundNames(cst.CSTVisitor):
    """Collects the names that the script binds, with letters to choose from, their uses, and the names that stay."""

    def __init__(self) -> None:
        self.bound: dict[str, str] = {}
        self.uses: dict[str, list[cst.Name]] = {}
        self.fixed: set[str] = set()
        self._methods: set[cst.CSTNode] = set()

    def visit_Name(self, node: cst.Name) -> None:
        self.uses.setdefault(node.value, []).append(node)

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        self.fixed.add(node.attr.value)
        node.value.visit(self)
        return False

    def visit_Arg(self, node: cst.Arg) -> bool:
        if node.keyword is not None:
            self.fixed.add(node.keyword.value)
        node.value.visit(self)
        return False

    def visit_ImportAlias(self, node: cst.ImportAlias) -> bool:
        self.fixed.add(node.evaluated_alias or node.evaluated_name.partition(".")[0])
        return False

    def visit_ClassDef(self, node: cst.ClassDef) -> None:
        self.bound.setdefault(node.name.value, _CLASSES)
        for statement in node.body.body:  # what is bound there is an attribute
            names = [statement.name] if isinstance(statement, (cst.FunctionDef, cst.ClassDef)) else []
            if isinstance(statement, cst.SimpleStatementLine):
                targets = [t for s in statement.body if isinstance(s, cst.Assign) for t in s.targets]
                names = [t.target for t in targets if isinstance(t.target, cst.Name)]
            self.fixed |= {name.value for name in names}

    def visit_FunctionDef(self, node: cst.FunctionDef) -> None:
        self.bound.setdefault(node.name.value, _FUNCTIONS)

    def visit_Param(self, node: cst.Param) -> None:
        self.bound.setdefault(node.name.value, _VARIABLES)

    def visit_AssignTarget(self, node: cst.AssignTarget) -> None:
        self._bind(node.target)

    def visit_For(self, node: cst.For) -> None:
        self._bind(node.target)

    def visit_AsName(self, node: cst.AsName) -> None:
        self._bind(node.name)

    def _bind(self, target: cst.CSTNode) -> None:
        if isinstance(target, cst.Name):
            self.bound.setdefault(target.value, _VARIABLES)
        elif isinstance(target, (cst.Tuple, cst.List)):
            for element in target.elements:
                self._bind(element.value)


def without_comments(module: cst.Module) -> Iterator[Edited]:
    """Yield the module without its comments, if any: they describe the original script."""
    if m.findall(module, m.Comment()):
        yield from applied(module, _WithoutComments())


class _WithoutComments(cst.CSTTransformer):
    def leave_TrailingWhitespace(
        self, original_node: cst.TrailingWhitespace, updated_node: cst.TrailingWhitespace
    ) -> cst.TrailingWhitespace:
        if original_node.comment is None:
            return updated_node
        return updated_node.with_changes(comment=None, whitespace=cst.SimpleWhitespace(""))

    def leave_EmptyLine(
        self, original_node: cst.EmptyLine, updated_node: cst.EmptyLine
    ) -> cst.EmptyLine | cst.RemovalSentinel:
        return updated_node if original_node.comment is None else cst.RemoveFromParent()
