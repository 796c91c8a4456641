"""Changes of what a program gives to its compiler: settings, options, arguments of the call that makes a backend."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from minifier.data.case import Case
from minifier.data.case.literals import WITHOUT, literal, setting_statement
from minifier.reduction.passes.state import with_option, without_config, without_option


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a Case: the part of the program with this `source` is left out, or gets another value.

    `line` is what a person reads: the source in its place, or `without` and the source that is left out.
    """

    source: str
    line: str
    case: Case


def changes_of(case: Case) -> Iterator[tuple[Change, ...]]:
    """Yield the changes of each setting, option, and flag or number among the arguments that make the backend.

    One of them is enough. A setting or option is left out. A flag gets its other value, a number becomes 0: what levels
    and counts call "less".
    """
    for setting in case.state.config:
        source = setting_statement(setting)
        yield (Change(source, f"{WITHOUT}{source}", without_config(setting)(case)),)
    options = case.backend.options or {}
    for key, value in options.items():
        source = f"options={literal({key: value})}"
        left_out = Change(source, f"{WITHOUT}{source}", without_option(key)(case))
        other = _other(value)
        line = f"options={literal({**options, key: other})}"
        yield (left_out,) if other is None else (left_out, Change(source, line, with_option(key, other)(case)))
    yield from ((change,) for change in _of_backend(case))


def _other(value: Any) -> bool | int | None:
    """Return another value of this type; None if none is known to ask for less."""
    if isinstance(value, bool):
        return not value
    return 0 if isinstance(value, int) and value else None


def _of_backend(case: Case) -> Iterator[Change]:
    """Yield a change for each flag and number among the arguments of the calls that make the backend.

    They stand in its expression, or in the script's last statement that binds the name that the expression is.
    """
    name, definitions = case.backend.expression, case.definitions
    for argument, expression in _with_other_arguments(name, ast.parse(name)):
        backend = replace(case.backend, expression=expression)
        yield Change(argument, f"backend={expression}", replace(case, backend=backend))
    statements = ast.parse(definitions).body
    bind = [number for number, statement in enumerate(statements) if name in _names_bound(statement)]
    for number in bind[-1:]:
        for argument, changed in _with_other_arguments(definitions, statements[number]):
            line = ast.get_source_segment(changed, ast.parse(changed).body[number]) or ""
            yield Change(argument, line, replace(case, definitions=changed))


def _names_bound(statement: ast.stmt) -> list[str]:
    """Return the names that an assignment binds."""
    if isinstance(statement, ast.Assign):
        return [target.id for target in statement.targets if isinstance(target, ast.Name)]
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return [statement.target.id]
    return []


def _with_other_arguments(source: str, part: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield (keyword argument, source with another value of it) for each flag and number of a call in this part."""
    calls = (node for node in ast.walk(part) if isinstance(node, ast.Call))
    for keyword in (keyword for call in calls for keyword in call.keywords):
        value = keyword.value
        other = _other(value.value) if isinstance(value, ast.Constant) else None
        if keyword.arg and other is not None:
            yield ast.unparse(keyword), _replaced(source, value, repr(other))


def _replaced(source: str, node: ast.expr, text: str) -> str:
    """Return the source with this text in the place of a node, which stands on one line."""
    lines = source.split("\n")
    line = lines[node.lineno - 1].encode()  # ast counts bytes
    lines[node.lineno - 1] = (line[: node.col_offset] + text.encode() + line[node.end_col_offset :]).decode()
    return "\n".join(lines)
