"""Statements of a script as libcst has them: made from text, set apart, put under a `with` or a `for`."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

Statement = cst.SimpleStatementLine | cst.BaseCompoundStatement


def code_of(node: cst.CSTNode) -> str:
    """The text of a node, without the blanks around it."""
    if isinstance(node, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
        return cst.Module([node]).code.strip()
    return cst.Module([]).code_for_node(node).strip()


def parsed(texts: Sequence[str]) -> list[Statement]:
    """Each text is one statement."""
    return [cst.parse_statement(text) for text in texts]


def names_as_arguments(texts: Sequence[str]) -> list[cst.Arg]:
    """Expressions as positional arguments."""
    return [cst.Arg(cst.parse_expression(text)) for text in texts]


def apart(statement: Statement, lines: int) -> Statement:
    """The statement with so many blank lines above it."""
    return statement.with_changes(leading_lines=[cst.EmptyLine(indent=False)] * lines)


def under(header: str, statements: Sequence[Statement]) -> Statement:
    """A compound statement of this first line, `for attempt in range(3):` say, with these in its body."""
    code = cst.Module(list(statements)).code.strip("\n")
    inner = "\n".join(f"    {line}" if line else "" for line in code.splitlines())
    return cst.parse_statement(f"{header}\n{inner}\n")


def under_contexts(statements: Sequence[Statement], contexts: Sequence[str]) -> Statement:
    """The statements, of which there must be one if there is no context, under `with`."""
    if not contexts:
        (only,) = statements
        return only
    return under(f"with {', '.join(contexts)}:", statements)
