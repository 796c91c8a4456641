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
    """A change of a Case: what the program gives, as source, is left out or gets another value.

    `line` says so to a person: what stands in its place, or `without` what is left out.
    """

    given: str
    line: str
    case: Case


def changes(case: Case) -> Iterator[Change]:
    """Yield a change for each setting and each option left out, and for each flag and number of an option or argument.

    A flag gets its other value, a number becomes 0: what levels and counts call "less".
    """
    for setting in case.state.config:
        given = setting_statement(setting)
        yield Change(given, f"{WITHOUT}{given}", without_config(setting)(case))
    for key, value in (case.backend.options or {}).items():
        given = f"options={literal({key: value})}"
        yield Change(given, f"{WITHOUT}{given}", without_option(key)(case))
        if (other := _other(value)) is not None:
            yield Change(given, f"options={literal({key: other})}", with_option(key, other)(case))
    yield from _of_backend(case)


def _other(value: Any) -> bool | int | None:
    """Return another value of this type; None if none is known to ask for less."""
    if isinstance(value, bool):
        return not value
    return 0 if isinstance(value, int) and value else None


def _of_backend(case: Case) -> Iterator[Change]:
    """Yield a change for each flag and number among the arguments of the calls that make the backend.

    They stand in its expression, or in the script's own statement that binds the name that the expression is.
    """
    name = case.backend.expression
    for given, expression in _with_other_arguments(name):
        backend = replace(case.backend, expression=expression)
        yield Change(given, f"backend={expression}", replace(case, backend=backend))
    for statement in ast.parse(case.definitions).body if name.isidentifier() else ():
        if isinstance(statement, ast.Assign) and [ast.unparse(each) for each in statement.targets] == [name]:
            text = ast.get_source_segment(case.definitions, statement) or ""
            for given, changed in _with_other_arguments(text):
                yield Change(given, changed, replace(case, definitions=case.definitions.replace(text, changed)))


def _with_other_arguments(source: str) -> Iterator[tuple[str, str]]:
    """Yield (keyword argument, source with another value of it) for each flag and number of a call in the source."""
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    for keyword in (keyword for call in calls for keyword in call.keywords):
        value = keyword.value
        other = _other(value.value) if isinstance(value, ast.Constant) else None
        if keyword.arg and other is not None:
            yield ast.unparse(keyword), _replaced(source, value, repr(other))


def _replaced(source: str, node: ast.expr, text: str) -> str:
    """Return the source with this text in the place of a node, which stands on one line."""
    lines = source.splitlines(keepends=True)
    line = lines[node.lineno - 1].encode()  # ast counts bytes
    changed = line[: node.col_offset] + text.encode() + line[node.end_col_offset :]
    return "".join((*lines[: node.lineno - 1], changed.decode(), *lines[node.lineno :]))
