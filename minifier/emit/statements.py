"""libcst statements: parse, transform, space and nest them."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

Statement = cst.SimpleStatementLine | cst.BaseCompoundStatement


def code_of(node: cst.CSTNode) -> str:
    """Return the stripped source text of a node."""
    if isinstance(node, (cst.SimpleStatementLine, cst.BaseCompoundStatement)):
        return cst.Module([node]).code.strip()
    return cst.Module([]).code_for_node(node).strip()


def parsed(texts: Sequence[str]) -> list[Statement]:
    """Parse a statement from each text."""
    return [cst.parse_statement(text) for text in texts]


def transformed(statement: Statement, transformer: cst.CSTTransformer) -> Statement:
    """Apply a transformer that maps a statement to a statement."""
    result = statement.visit(transformer)
    assert isinstance(result, (cst.SimpleStatementLine, cst.BaseCompoundStatement))
    return result


def names_as_arguments(texts: Sequence[str]) -> list[cst.Arg]:
    """Parse expressions as positional arguments."""
    return [cst.Arg(cst.parse_expression(text)) for text in texts]


def apart(statement: Statement, blank_lines: int) -> Statement:
    """Return the statement with this number of blank lines above, and no comments."""
    return statement.with_changes(leading_lines=[cst.EmptyLine(indent=False)] * blank_lines)


def under(header: str, statements: Sequence[Statement]) -> Statement:
    """Build a compound statement with this header (`for attempt in range(3):`) and body."""
    code = cst.Module(list(statements)).code.strip("\n")
    body = "\n".join(f"    {line}" if line else "" for line in code.splitlines())
    return cst.parse_statement(f"{header}\n{body}\n")


def under_contexts(statements: Sequence[Statement], contexts: Sequence[str]) -> Statement:
    """Put the statements under `with`. Without contexts, return the only statement."""
    if not contexts:
        (only,) = statements
        return only
    return under(f"with {', '.join(contexts)}:", statements)
