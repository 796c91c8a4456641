"""Keep the check of a script that finds wrong results, and what it compares."""

from __future__ import annotations

import ast
import functools
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch

from minifier.data.failure.frames import TESTING
from minifier.repro.source.conditions import Condition, SourceRun
from minifier.repro.source.own_code import digest
from minifier.torch_side.fx.script_objects import FILE

EXIT_LINE = "exit line"  # the key of what a child tells: where the script exits
DRAWN = "drawn"  # the key of what a child tells: {generator that drew numbers: digest of its state at the end}
GENERATORS = {"random", "numpy", "torch"}
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


class SameSeeds(Condition):
    """Random numbers that the script seeds stay seeded: its check may fail for some numbers only."""

    def __init__(self, first: SourceRun) -> None:
        self._seeded = _seeded(first.source)

    def holds(self, run: SourceRun) -> bool:
        """Return whether the run drew no numbers from a generator that lost its seed."""
        return self._seeded.isdisjoint(run.end.told.get(DRAWN, {}).keys() - _seeded(run.source))


def _seeded(source: str) -> set[str]:
    """Return the generators that the script seeds, by functions like `torch.manual_seed` or `transformers.set_seed`."""
    values = Values(ast.parse(source))
    functions = (values.value(node.func) for node in ast.walk(values.tree) if isinstance(node, ast.Call))
    paths = [each.path.split(".") for each in functions if isinstance(each, Path) and "seed" in each.path]
    return {name for top, *_ in paths for name in ({top} if top in GENERATORS else GENERATORS)}


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


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
DEFINITIONS = (*FUNCTIONS, ast.ClassDef)


class Path(ast.expr):
    """Stands for an imported name, by its dotted path."""

    _fields = ("path",)

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path


def targets(target: ast.expr) -> list[str]:
    """Return the names that a target binds."""
    return [node.id for node in ast.walk(target) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]


def _root(node: ast.expr) -> str:
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call, ast.Starred)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def bindings(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield (name, what is bound) for a statement, parameter or import; a value's part, like a loop's, as `Starred`."""
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        of = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
        for alias in node.names:
            top = alias.name if alias.asname or of else alias.name.partition(".")[0]
            yield alias.asname or top, Path(of + top)
    elif isinstance(node, DEFINITIONS):
        yield node.name, node
    elif isinstance(node, ast.arg):
        yield node.arg, node
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _assigned(target, node.value)
    elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
        yield from _assigned(node.target, node.value)
    elif isinstance(node, ast.AugAssign):
        if isinstance(node.target, ast.Name):
            yield node.target.id, ast.BinOp(ast.Name(node.target.id), node.op, node.value)
    elif isinstance(node, (ast.For, ast.AsyncFor)):
        yield from ((name, ast.Starred(node.iter)) for name in targets(node.target))
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        yield from ((name, ast.Starred(node.context_expr)) for name in targets(node.optional_vars))
    elif isinstance(node, ast.ExceptHandler) and node.name:
        yield node.name, node


def changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """Yield (variable, change) for a statement that replaces a part of an object, or calls a method for its effect."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute):
        yield _root(node.value), node.value
    elif isinstance(node, (ast.Assign, ast.AugAssign)):
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if isinstance(target, (ast.Attribute, ast.Subscript)):
                yield _root(target), ast.Tuple([target, node.value])


def of_pythons_library(tree: ast.Module) -> frozenset[str]:
    """Return the names that imports bind to Python's own library, where `re.compile` is no torch.compile."""
    bound = [(name, value.path) for node in ast.walk(tree) for name, value in bindings(node) if isinstance(value, Path)]
    return frozenset(name for name, path in bound if path.partition(".")[0] in sys.stdlib_module_names)


def _assigned(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, (ast.Tuple, ast.List)):
        values = value.elts if isinstance(value, (ast.Tuple, ast.List)) else ()
        if len(values) == len(target.elts) and not any(isinstance(each, ast.Starred) for each in target.elts):
            for each, given in zip(target.elts, values, strict=True):
                yield from _assigned(each, given)
        else:
            yield from ((name, ast.Starred(value)) for name in targets(target))


_COMPILING = {"compile", "optimize"}  # functions whose results are compiled code
_NOT_COMPARED = {"ctx", "kind", "type_comment"}
_LIMITS = {"torch.finfo", "torch.iinfo"}  # functions of constants that a tolerance is made of
_MAX_SUBSTITUTED = 100  # variables and calls of a value
_MESSAGES = {"msg", "err_msg"}  # arguments of assertions
Scope: TypeAlias = "ast.Module | ast.FunctionDef | ast.AsyncFunctionDef"
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)


class Anything(ast.expr):
    """Stands for a value of the script's. `is_compiled`: compiled code computes it, or takes part in that."""

    _fields = ()

    def __init__(self, is_compiled: bool) -> None:
        super().__init__()
        self.is_compiled = is_compiled


class Compiled(Anything):
    """Stands for what torch.compile returns: a function that gets it calls it."""


class Several(ast.expr):
    """Stands for a variable that is changed, with all its values, or for a parameter, "", with all its arguments."""

    _fields = ("name", "values")

    def __init__(self, name: str, values: list[ast.expr]) -> None:
        super().__init__()
        self.name, self.values = name, values


def is_compiled(value: ast.AST) -> bool:
    """Return whether compiled code takes part in a value."""
    return any(isinstance(node, Anything) and node.is_compiled for node in ast.walk(value))


def matches(pattern: object, other: object) -> bool:
    """Return whether the other value is the pattern's, where anything stands for anything."""
    if isinstance(pattern, Anything):
        return True
    if isinstance(pattern, Several) and not pattern.name:
        values = other.values if isinstance(other, Several) and not other.name else [other]
        return all(any(matches(each, value) for each in pattern.values) for value in values)
    if type(pattern) is not type(other):
        return False
    if isinstance(pattern, Several) and isinstance(other, Several):
        pairs = [[matches(each, value) for value in other.values] for each in pattern.values]
        return pattern.name == other.name and all(map(any, pairs)) and all(map(any, zip(*pairs, strict=True)))
    if isinstance(pattern, list) and isinstance(other, list):
        return len(pattern) == len(other) and all(map(matches, pattern, other))
    if isinstance(pattern, ast.AST):
        names = [name for name in pattern._fields if name not in _NOT_COMPARED]
        return all(matches(_part(pattern, name), _part(other, name)) for name in names)
    return pattern == other


def _part(node: object, name: str) -> object:
    part = getattr(node, name, None)
    if name != "keywords" or not isinstance(node, ast.Call):
        return part
    return sorted((each for each in node.keywords if each.arg not in _MESSAGES), key=lambda each: each.arg or "")


class Values:
    """Computes the normal form of expressions of a module."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree, self._foreign = tree, of_pythons_library(tree)
        self.parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        self._calls: dict[str, list[ast.Call]] = {}
        self._bound: dict[Scope, dict[str, list[ast.AST]]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                self._calls.setdefault(node.func.id, []).append(node)
            is_local = isinstance(self.parents.get(node), ast.ClassDef) or self._is_of_lambda(node)
            for name, value in () if is_local else bindings(node):
                self._bound.setdefault(self.scope(node), {}).setdefault(name, []).append(value)
        for node in ast.walk(tree):
            for name, value in changes(node):
                bound = self._home(name, self.scope(node))[1]
                if bound and not any(isinstance(each, (Path, *DEFINITIONS)) for each in bound):
                    bound.append(value)
        self._active: set[tuple[Scope, str]] = set()
        self._left = 0  # variables and calls in whose place their values may be put

    def scope(self, node: ast.AST) -> Scope:
        """Return the function around the node, or the module."""
        while (node := self.parents[node]) is not self.tree:
            if isinstance(node, FUNCTIONS):
                return node
        return self.tree

    def _is_of_lambda(self, node: ast.AST) -> bool:
        return isinstance(node, ast.arg) and isinstance(self.parents[self.parents[node]], ast.Lambda)

    def calls_of(self, function: Scope) -> list[ast.Call]:
        """Return the calls of a function by its name."""
        return self._calls.get(function.name, []) if isinstance(function, FUNCTIONS) else []

    def value(self, node: ast.expr, bound: Mapping[str, ast.expr] | None = None) -> ast.expr:
        """Return the normal form of an expression, in which some names have these values."""
        self._left = _MAX_SUBSTITUTED
        return self._value(node, self.scope(node), bound or {})

    def _value(self, node: ast.expr, scope: Scope, bound: Mapping[str, ast.expr]) -> ast.expr:
        if isinstance(node, ast.Name):
            return bound[node.id] if node.id in bound else self._variable(node.id, scope)
        if isinstance(node, ast.Attribute):
            value = self._value(node.value, scope, bound)
            return Path(f"{value.path}.{node.attr}") if isinstance(value, Path) else _with(node, value=value)
        if isinstance(node, ast.Call):
            return self._call(node, scope, bound)
        if isinstance(node, _COMPREHENSIONS):
            drawn = [self._value(each.iter, scope, bound) for each in node.generators]
            anything = Anything(any(map(is_compiled, drawn)))
            names = {name for each in node.generators for name in targets(each.target)}
            bound = {**bound, **dict.fromkeys(names, anything)}
        if isinstance(node, ast.Lambda):
            anything = Anything(is_compiled=False)
            bound = {**bound, **{each.arg: anything for each in ast.walk(node.args) if isinstance(each, ast.arg)}}
        return self._with_values(node, scope, bound)

    def _with_values(self, node: ast.expr, scope: Scope, bound: Mapping[str, ast.expr]) -> ast.expr:
        def changed(part: object) -> object:
            if isinstance(part, list):
                return [changed(each) for each in part]
            if isinstance(part, ast.expr):
                return self._value(part, scope, bound)
            return (
                _with(part, **{n: changed(v) for n, v in ast.iter_fields(part)}) if isinstance(part, ast.AST) else part
            )

        return _with(node, **{name: changed(part) for name, part in ast.iter_fields(node)})

    def _variable(self, name: str, scope: Scope) -> ast.expr:
        home, bound = self._home(name, scope)
        if not bound:
            return Path(name)
        self._left -= 1
        if self._left < 0 or (home, name) in self._active:
            return ast.Name(name)
        self._active.add((home, name))
        try:
            values = [self._bound_value(binding, name, home) for binding in bound]
        finally:
            self._active.remove((home, name))
        return values[0] if len(values) == 1 else Several(name, values)

    def _home(self, name: str, scope: Scope) -> tuple[Scope, list[ast.AST]]:
        """Return the scope that binds a name, and what is bound."""
        while True:
            if bound := self._bound.get(scope, {}).get(name):
                return scope, bound
            if scope is self.tree:
                return scope, []
            scope = self.scope(scope)

    def _bound_value(self, binding: ast.AST, name: str, scope: Scope) -> ast.expr:
        if isinstance(binding, Path):
            return binding
        if isinstance(binding, ast.arg):
            return self._argument(binding, scope)
        if isinstance(binding, ast.Starred):  # a loop's variable, say
            return Anything(is_compiled(self._value(binding.value, scope, {})))
        if isinstance(binding, ast.expr):
            return self._value(binding, scope, {})
        return Anything(self._compiles(binding))

    def _argument(self, parameter: ast.arg, function: Scope) -> ast.expr:
        """Return the arguments that the function's calls give for a parameter."""
        assert isinstance(function, FUNCTIONS), "parameters are a function's"
        calls = self.calls_of(function)
        given = [_argument(function, call, parameter.arg) for call in calls]
        values = [self._value(each, self.scope(each), {}) for each in given if each is not None]
        if not calls or len(values) < len(calls):
            return Anything(is_compiled=False)
        return values[0] if len(values) == 1 else Several("", values)

    def _call(self, node: ast.Call, scope: Scope, bound: Mapping[str, ast.expr]) -> ast.expr:
        """Return the result of a call: anything, if compiled code or the model is called."""
        function = node.func
        if isinstance(function, ast.Attribute):
            of = self._value(function.value, scope, bound)
            if isinstance(of, Path) and function.attr in _COMPILING and of.path.startswith("torch"):
                return Compiled(is_compiled=True)
            if not isinstance(of, Path) and not hasattr(torch.Tensor, function.attr):  # no method of a value
                return Anything(self._compiles(function))
            value = self._with_values(node, scope, bound)
            return Anything(is_compiled=False) if _makes_data(value) else value
        if not isinstance(function, ast.Name):
            return Anything(self._compiles(function))
        _, values = self._home(function.id, scope)
        if function.id in bound or not all(isinstance(each, (Path, *FUNCTIONS)) for each in values):
            return Anything(self._compiles(function))
        if not values or isinstance(values[0], Path):
            return self._with_values(node, scope, bound)
        return self._call_of_own(node, values, scope, bound)

    def _call_of_own(
        self, node: ast.Call, definitions: Sequence[ast.AST], scope: Scope, bound: Mapping[str, ast.expr]
    ) -> ast.expr:
        """Return the result of a function of the script: what it computes from the results of compiled code."""
        arguments = [self._value(each, scope, bound) for each in (*node.args, *(each.value for each in node.keywords))]
        if self._compiles(node.func) or any(isinstance(each, Compiled) for each in arguments):
            return Anything(is_compiled=True)
        self._left -= 1
        if self._left < 0 or not any(map(is_compiled, arguments)):
            return Anything(is_compiled=False)
        definition = definitions[-1]
        assert isinstance(definition, FUNCTIONS), "as its caller found"
        result = _only_result(definition)
        given = {each.arg: _argument(definition, node, each.arg) for each in definition.args.args}
        if result is not None and all(value is not None for value in given.values()) and not definition.decorator_list:
            values = {name: self._value(value, scope, bound) for name, value in given.items() if value is not None}
            return self._value(result, definition, values)
        return ast.Tuple([Path(digest(ast.dump(definition))), *arguments])

    def _compiles(self, node: ast.AST) -> bool:
        """Whether the node, or what its names stand for, mentions a function that compiles."""
        return not self._compiling_names.isdisjoint(self._names_in(node))

    def _names_in(self, node: ast.AST) -> set[str]:
        parts = (
            p for p in ast.walk(node) if isinstance(p, (ast.Name, ast.Attribute)) and _root(p) not in self._foreign
        )
        return {p.id if isinstance(p, ast.Name) else p.attr for p in parts}

    @functools.cached_property
    def _compiling_names(self) -> set[str]:
        """The names that stand for something that mentions a function that compiles."""
        read: dict[str, set[str]] = {}
        for bound in self._bound.values():
            for name, values in bound.items():
                read.setdefault(name, set()).update(*map(self._names_in, values))
        found = set(_COMPILING)
        while more := {name for name, names in read.items() if names & found} - found:
            found |= more
        return found


def _makes_data(call: ast.expr) -> bool:
    """Whether a call makes a tensor from constants, as `torch.ones(3)` does: the model's input, say."""
    assert isinstance(call, ast.Call), "the normal form of a call"
    path = call.func.path if isinstance(call.func, Path) else ""
    parts = [node for each in (*call.args, *call.keywords) for node in ast.walk(each)]
    constants = (ast.Constant, ast.Tuple, ast.List, ast.UnaryOp, ast.USub, ast.keyword, ast.Load, Path)
    is_made = path.startswith("torch.") and path not in _LIMITS
    return is_made and all(isinstance(part, constants) for part in parts)


def _with(node: ast.AST, **parts: object) -> ast.expr:
    new: ast.expr = type(node)(**{**dict(ast.iter_fields(node)), **parts})  # type: ignore[assignment]
    return new


def _only_result(function: ast.FunctionDef | ast.AsyncFunctionDef) -> ast.expr | None:
    """Return the expression that is the whole body of the function, but for its docstring."""
    body = [each for each in function.body if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))]
    return body[0].value if len(body) == 1 and isinstance(body[0], ast.Return) else None


def _argument(function: ast.FunctionDef | ast.AsyncFunctionDef, call: ast.Call, name: str) -> ast.expr | None:
    """Return the expression that a call, or the parameter's default, gives for a parameter; None if unknown."""
    if any(isinstance(each, ast.Starred) for each in call.args) or any(each.arg is None for each in call.keywords):
        return None
    positional = [*function.args.posonlyargs, *function.args.args]
    names = [each.arg for each in positional]
    given = dict(zip(names, call.args, strict=False)) | {each.arg or "": each.value for each in call.keywords}
    defaults = function.args.defaults
    known = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
    known |= {
        a.arg: d for a, d in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True) if d is not None
    }
    return given.get(name, known.get(name))
