"""The user's own definitions and comparison in a repro, as libcst statements."""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence
from dataclasses import dataclass

import libcst as cst

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


@dataclass(frozen=True, slots=True)
class Predicate:
    """The file's import lines, its other statements, and its top-level names."""

    imports: tuple[str, ...]
    statements: tuple[str, ...]
    names: tuple[str, ...]


def predicate_source(text: str) -> Predicate:
    """Split the file, without its docstring and its `if __name__ == ...` block."""
    tree = ast.parse(text)
    imports, statements, names = [], [], []
    for number, node in enumerate(tree.body):
        source = ast.get_source_segment(text, node) or ast.unparse(node)
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            if isinstance(node, ast.Import) or node.module != "__future__":
                imports += _single_imports(node)
            names += [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
            continue
        if number == 0 and isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        if isinstance(node, ast.If) and "__name__" in ast.unparse(node.test):
            continue
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            decorators = [f"@{ast.unparse(decorator)}" for decorator in node.decorator_list]
            source = "\n".join([*decorators, source])
            names.append(node.name)
        else:
            names += [n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
        statements.append(source)
    return Predicate(tuple(imports), tuple(statements), tuple(names))


def _single_imports(node: ast.Import | ast.ImportFrom) -> list[str]:
    """Return a line for each module, to be merged with the script's imports."""
    if isinstance(node, ast.ImportFrom):
        return [ast.unparse(node)]
    return [ast.unparse(ast.Import([alias])) for alias in node.names]


def defined_names(text: str) -> tuple[str, ...]:
    """Return the file's top-level names; none for an empty text."""
    return predicate_source(text).names
