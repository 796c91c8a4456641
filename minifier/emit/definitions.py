"""Definitions of the user's script in a repro: its imports among the others, its names kept, those of the template's
that are the same changed."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import libcst as cst

from minifier.emit.statements import Statement, code_of

_MARK = "of_the_script__"


def of_script(expression: str) -> str:
    """An expression in the script's own names, marked so that they are not taken for those of the template."""
    return f"{_MARK}{expression}"


class _Mark(cst.CSTTransformer):
    def __init__(self, names: Collection[str]) -> None:
        super().__init__()
        self.names = names

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        return cst.Name(f"{_MARK}{original_node.value}") if original_node.value in self.names else updated_node


def marked(expression: str, names: Collection[str]) -> str:
    """The expression with these of its names marked."""
    made = cst.parse_expression(expression).visit(_Mark(names))
    assert isinstance(made, cst.BaseExpression)
    return code_of(made)


class _Settle(cst.CSTTransformer):
    """Takes the marks away, and the template's own names out of the way of the script's."""

    def __init__(self, taken: Collection[str]) -> None:
        super().__init__()
        self.taken = taken

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.Attribute:
        return updated_node.with_changes(attr=original_node.attr)

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:
        return updated_node.with_changes(keyword=original_node.keyword)

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        name = original_node.value
        if name.startswith(_MARK):
            return updated_node.with_changes(value=name.removeprefix(_MARK))
        return updated_node.with_changes(value=f"{name}_") if name in self.taken else updated_node


def keep_script_names(statement: Statement, taken: Collection[str]) -> Statement:
    """A statement of the template, filled, with the script's names as they are, and its own ones of them renamed."""
    made = statement.visit(_Settle(taken))
    assert isinstance(made, (cst.SimpleStatementLine, cst.BaseCompoundStatement))
    return made


@dataclass(frozen=True)
class Definitions:
    """What a repro takes from the script: `future` imports, plain `imports` as text, and the other statements."""

    future: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    statements: tuple[Statement, ...] = ()


def taken_apart(source: str) -> Definitions:
    """The definitions with the imports that can stand at the head of a script."""
    future: list[str] = []
    imports: list[str] = []
    statements: list[Statement] = []
    for statement in cst.parse_module(source).body:
        text = code_of(statement).strip()
        if _is_plain_import(statement):
            (future if text.startswith("from __future__") else imports).append(text.rpartition("\n")[2])
        else:
            assert isinstance(statement, (cst.SimpleStatementLine, cst.BaseCompoundStatement))
            statements.append(statement)
    return Definitions(tuple(future), tuple(imports), tuple(statements))


def _is_plain_import(statement: cst.BaseStatement) -> bool:
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return False
    return isinstance(statement.body[0], (cst.Import, cst.ImportFrom))


def as_written(statements: Sequence[Statement]) -> list[Statement]:
    """The statements, apart from what stands above them."""
    if not statements:
        return []
    first, *rest = statements
    lines = [line for line in first.leading_lines if line.comment is not None]
    empty = [cst.EmptyLine(indent=False)] * (2 if isinstance(first, (cst.FunctionDef, cst.ClassDef)) else 1)
    return [first.with_changes(leading_lines=[*empty, *lines]), *rest]
