"""The user's own definitions in a repro, next to the names and imports of the template."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import libcst as cst

from minifier.emit.statements import Statement, code_of, transformed

_MARK = "of_the_script__"


def script_name(expression: str) -> str:
    """Mark a name of the user's script, to tell the name from the template's."""
    return f"{_MARK}{expression}"


class _Variables(cst.CSTTransformer):
    """Leaves the names of attributes and of keyword arguments as they are."""

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.Attribute:
        return updated_node.with_changes(attr=original_node.attr)

    def leave_Arg(self, original_node: cst.Arg, updated_node: cst.Arg) -> cst.Arg:
        return updated_node.with_changes(keyword=original_node.keyword)


class _AddMarks(_Variables):
    def __init__(self, names: Collection[str]) -> None:
        super().__init__()
        self.names = names

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        return cst.Name(f"{_MARK}{original_node.value}") if original_node.value in self.names else updated_node


def mark_names(expression: str, names: Collection[str]) -> str:
    """Return the expression with every occurrence of `names` marked as a name of the user's script."""
    marked = cst.parse_expression(expression).visit(_AddMarks(names))
    assert isinstance(marked, cst.BaseExpression)
    return code_of(marked)


class _ResolveMarks(_Variables):
    """Removes the marks, and renames the template's names that clash with the script's."""

    def __init__(self, script_names: Collection[str]) -> None:
        super().__init__()
        self.script_names = script_names

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        name = original_node.value
        if name.startswith(_MARK):
            return updated_node.with_changes(value=name.removeprefix(_MARK))
        return updated_node.with_changes(value=f"{name}_") if name in self.script_names else updated_node


def keep_script_names(statement: Statement, script_names: Collection[str]) -> Statement:
    """Return the template's statement with unmarked script names; clashing template names get a `_` appended."""
    return transformed(statement, _ResolveMarks(script_names))


@dataclass(frozen=True)
class Definitions:
    """Code taken from the script: `future` imports, other top-level `imports` as text, remaining statements."""

    future: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    statements: tuple[Statement, ...] = ()


def source_of(definitions: Definitions) -> str:
    """Return the source of the statements, as it stands in a repro."""
    return cst.Module(definitions.statements).code.strip()


def split_imports(source: str) -> Definitions:
    """Separate the imports that can move to the head of a script from the other statements."""
    future: list[str] = []
    imports: list[str] = []
    statements: list[Statement] = []
    for statement in cst.parse_module(source).body:
        text = code_of(statement).strip()
        if _is_single_import(statement):
            (future if text.startswith("from __future__") else imports).append(text.rpartition("\n")[2])
        else:
            assert isinstance(statement, (cst.SimpleStatementLine, cst.BaseCompoundStatement))
            statements.append(statement)
    return Definitions(tuple(future), tuple(imports), tuple(statements))


def _is_single_import(statement: cst.BaseStatement) -> bool:
    if not isinstance(statement, cst.SimpleStatementLine) or len(statement.body) != 1:
        return False
    return isinstance(statement.body[0], (cst.Import, cst.ImportFrom))


def set_apart(statements: Sequence[Statement]) -> list[Statement]:
    """Put the usual blank lines above the first statement; its comments stay."""
    if not statements:
        return []
    first, *rest = statements
    comments = [line for line in first.leading_lines if line.comment is not None]
    blank = [cst.EmptyLine(indent=False)] * (2 if isinstance(first, (cst.FunctionDef, cst.ClassDef)) else 1)
    return [first.with_changes(leading_lines=[*blank, *comments]), *rest]
