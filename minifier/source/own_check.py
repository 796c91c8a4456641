"""Keep the check of a script that finds wrong results: a stricter check would fail because of rounding."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from minifier.failure.frames import TESTING
from minifier.fx.script_definitions import FILE
from minifier.source.check_values import FUNCTIONS, Path, Scope, Values, is_compiled, matches
from minifier.source.conditions import Condition, SourceRun

EXIT_LINE = "exit line"  # the key of what a child tells: where the script exits
_CHECKS = re.compile(r"assert\w*|_?exit|quit|abort")
_EXITS = re.compile(r"(sys\.|os\.)?_?exit\(|raise SystemExit\b|quit\(")
_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)


@dataclass(frozen=True)
class _Check:
    """A statement that fails, and its conditions: a test, and whether it has to be true."""

    what: str
    conditions: tuple[tuple[ast.expr, bool], ...]
    lines: range

    def is_kept_in(self, other: _Check) -> bool:
        """Return whether the other check, of another script, is this one."""
        if (self.what, len(self.conditions)) != (other.what, len(other.conditions)):
            return False
        pairs = zip(self.conditions, other.conditions, strict=True)
        return all(mine == theirs and matches(test, candidate) for (test, mine), (candidate, theirs) in pairs)


class SameCheck(Condition):
    """The script's own check that failed stays. It may be written without its variables and functions."""

    def __init__(self, first: SourceRun) -> None:
        line = failing_line(first)
        self._checks = [check for check in _checks(first.source) if line in check.lines]

    @property
    def applies(self) -> bool:
        """Whether a check of what compiled code computes failed."""
        return bool(self._checks)

    def may_hold(self, source: str) -> bool:
        """Return whether the source has the check."""
        return any(self._is_kept_in(check) for check in _checks(source))

    def holds(self, run: SourceRun) -> bool:
        """Return whether the check failed, not another one."""
        line = failing_line(run)
        return any(line in check.lines and self._is_kept_in(check) for check in _checks(run.source))

    def _is_kept_in(self, other: _Check) -> bool:
        return any(check.is_kept_in(other) for check in self._checks)


def failing_line(run: SourceRun) -> int:
    """Return the script's line that raised the exception or exited, by itself or by a function for tests; else 0."""
    frames = run.links[0]["frames"] if run.links else ()
    places = [place for place, frame in enumerate(frames) if frame[2] == FILE]
    if not places:
        return int(run.end.told.get(EXIT_LINE, 0))
    is_own = all(module.startswith(TESTING) for module, *_ in frames[places[-1] + 1 :])
    return int(frames[places[-1]][3]) if is_own else 0


@functools.lru_cache(maxsize=8)
def _checks(source: str) -> tuple[_Check, ...]:
    """Return the checks of what compiled code computes."""
    values = Values(ast.parse(source))
    return tuple(
        _Check(what, conditions, range(node.lineno, (node.end_lineno or node.lineno) + 1))
        for node in ast.walk(values.tree)
        if isinstance(node, ast.stmt) and (what := _what(node, values))
        for conditions in _conditions(node, values, set())
        if conditions
    )


def _what(node: ast.AST, values: Values) -> str:
    """Return the kind of a statement that ends the script; "" for any other."""
    if isinstance(node, (ast.Assert, ast.Raise)):
        return type(node).__name__
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        function = values.value(node.value.func)
        name = function.path.rpartition(".")[2] if isinstance(function, Path) else ""
        return name if _CHECKS.fullmatch(name) else ""
    return ""


def _conditions(node: ast.AST, values: Values, known: set[Scope]) -> Iterator[tuple[tuple[ast.expr, bool], ...]]:
    """Yield the conditions under which a statement fails that compiled code decides.

    A function without such conditions, whose callers have them, yields those of each caller. `known` are the functions
    whose callers were looked at.
    """
    tests = [
        (values.value(test), is_true) for test, is_true in (*_own_tests(node, values), *_tests_around(node, values))
    ]
    found = tuple((test, is_true) for test, is_true in tests if is_compiled(test))
    function = values.scope(node)
    if found or function in known:
        yield found
        return
    known.add(function)
    for call in values.calls_of(function):
        yield from _conditions(call, values, known)


def _own_tests(node: ast.AST, values: Values) -> Iterator[tuple[ast.expr, bool]]:
    if isinstance(node, ast.Assert):
        yield node.test, False
    elif isinstance(node, ast.Expr) and _what(node, values).startswith("assert"):
        yield node.value, False


def _tests_around(node: ast.AST, values: Values) -> Iterator[tuple[ast.expr, bool]]:
    """Yield the tests in the function that have to come out so for the statement to be reached, inner ones first."""
    while (parent := values.parents.get(node)) is not None and not isinstance(node, FUNCTIONS):
        for block in (getattr(parent, name, None) for name in ("body", "orelse", "finalbody")):
            if isinstance(block, list) and node in block:
                for before in block[: block.index(node)]:
                    if isinstance(before, ast.If) and isinstance(before.body[-1], _LEAVES):
                        yield before.test, False
                if isinstance(parent, (ast.If, ast.While)):
                    yield parent.test, block is parent.body
        if isinstance(node, ast.ExceptHandler) and isinstance(parent, ast.Try):
            for each in parent.body:
                yield from _own_tests(each, values)
        node = parent


def said_of_exit(source: str) -> str:
    """Say where a script ends itself: "where not torch.equal(x, y)", "at sys.exit(f())"; "" if at several places."""
    tree = ast.parse(source)
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    nodes = (node for node in ast.walk(tree) if isinstance(node, (ast.Call, ast.Raise)))
    ends = [node for node in nodes if _EXITS.match(ast.unparse(node))]
    if len(ends) != 1:
        return ""
    node: ast.AST = ends[0]
    while not isinstance(node, (ast.Module, *FUNCTIONS)):
        inner, node = node, parents[node]
        if isinstance(node, ast.If) and inner is not node.test:
            test = node.test if inner in node.body else ast.UnaryOp(ast.Not(), node.test)
            return f"where {ast.unparse(test)}"
    return f"at {ast.unparse(ends[0])}"
