"""Write a backend that a function made, a lambda in `main()` say: as a function of the statements that made it.

    def main(scale):
        storage = {}
        log = open_log()
        train(torch.compile(model, backend=lambda gm, args: lower(gm, args, storage, scale)))

becomes, while `main(2)` runs,

    def make_backend():
        scale = 2
        storage = {}
        return lambda gm, args: lower(gm, args, storage, scale)

Each call of a user's function that goes on is a scope. A value that has no source of its own is looked for among the
variables of the scopes; the statements of the function that the variable needs are sliced. What these read and do not
bind, parameters say, is a value of the scope's, which is written likewise, from the scopes further out.
"""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import libcst as cst

from minifier.capturing.object_source import importable, in_script_source, is_constant, write_object
from minifier.capturing.slicing.function_body import (
    FunctionBody,
    argument_text,
    as_function,
    backend_arguments,
    function_body,
    global_names,
    lambda_text,
    names_assigned,
)
from minifier.data.case.literals import SCRIPT
from minifier.data.case.values import SourceExpression
from minifier.data.failure.frames import STDLIB_FOLDERS
from minifier.errors import CannotSave

_FACTORY = "make_backend"
_FOREIGN = ("torch", "minifier")  # packages whose calls are no scopes


@dataclass(eq=False)
class _Scope:
    """The frame of a user's function that still runs.

    line: the line that it executes.
    values: its variables' values, by name.
    has_caller: the next scope outwards called this function itself.
    wanted: the variables that the backend needs.
    """

    code: types.CodeType
    module: str
    line: int
    values: Mapping[str, Any]
    has_caller: bool = False
    wanted: set[str] = field(default_factory=set)

    @cached_property
    def source(self) -> str:
        """The text of its file. Raises CannotSave if that cannot be read."""
        try:
            return Path(self.code.co_filename).read_text(encoding="utf-8")
        except (OSError, ValueError) as error:
            raise CannotSave(f"{self.code.co_filename} cannot be read: {error}") from error

    @property
    def globals(self) -> Mapping[str, Any]:
        """The names of its module."""
        return vars(sys.modules[self.module])

    @cached_property
    def body(self) -> FunctionBody:
        """The statements that have run when it executes `line`. Raises CannotSave if the source cannot be read."""
        try:
            body = function_body(self.source, self.code.co_name, self.line)
        except (SyntaxError, cst.ParserSyntaxError) as error:
            raise CannotSave(f"{self.code.co_filename} is no Python: {error}") from error
        if body is None:
            raise CannotSave(f"{self.code.co_filename} has no {self.code.co_name} around line {self.line}")
        return body

    def held(self, value: Any) -> str | None:
        """Return the variable, but no parameter, that holds the value."""
        names = [name for name, item in self.values.items() if item is value]
        try:
            made = self.body.variables - self.body.parameters if names else ()
        except CannotSave:
            return None
        return next((name for name in names if name in made), None)


def _scopes() -> Iterator[_Scope]:
    """Yield the calls of the user's functions on the stack, the innermost first."""
    frame: types.FrameType | None = sys._getframe()
    while frame is not None:
        code, outer = frame.f_code, frame.f_back
        if _is_users(frame):
            module = str(frame.f_globals.get("__name__"))
            has_caller = outer is not None and _is_users(outer)
            yield _Scope(code, module, frame.f_lineno, frame.f_locals, has_caller)
        frame = outer


def _is_users(frame: types.FrameType) -> bool:
    package = str(frame.f_globals.get("__name__")).partition(".")[0]
    code = frame.f_code
    return package not in _FOREIGN and not _is_installed(code.co_filename) and not code.co_name.startswith("<")


def _is_installed(file: str) -> bool:
    return "site-packages" in file or file.startswith(("<", *STDLIB_FOLDERS))


@dataclass(frozen=True, slots=True)
class LocalBackend:
    """The expression of a backend that a function made, and the definitions that it needs.

    `imports` are lines that the definitions have, or without definitions that the expression needs. `names` are those
    of the script that the expression needs, and those that the definitions bind for it.
    """

    expression: str
    definitions: str
    imports: tuple[str, ...]
    names: tuple[str, ...]


def local_backend(function: Any) -> LocalBackend | None:
    """Return the source of a backend that the user's functions on the stack made.

    The definitions lack the names that the script's module binds. None if a needed variable holds an object that no
    statement makes again: a tensor that was passed as an argument, say.
    """
    scopes = list(_scopes())
    outwards = [scopes[n:] for n in range(len(scopes))]
    for within in outwards:
        with contextlib.suppress(CannotSave):
            return _Factory(within).source_of(function)
    for within in outwards:
        with contextlib.suppress(CannotSave):
            return _Factory(within).source_of_argument()
    return None


class _Factory:
    """Collects what the function that makes the backend needs."""

    def __init__(self, scopes: list[_Scope]) -> None:
        self._scopes = [replace(scope, wanted=set()) for scope in scopes]  # the innermost first
        self._outer = 0  # from which of them on values are looked for
        self._imports: dict[str, None] = {}
        self._names: dict[str, None] = {}
        self._globals: dict[str, str] = {}  # names of modules, and their module

    def source_of(self, function: Any) -> LocalBackend:
        """Return the expression and its definitions, by way of the objects that the backend consists of."""
        return self._made(self._written(function))

    def source_of_argument(self) -> LocalBackend:
        """Return the expression and its definitions, by the only `backend=` in the innermost function."""
        scope = self._scopes[0]
        texts = backend_arguments(scope.source, scope.code.co_name, scope.line)
        if len(texts) != 1:
            raise CannotSave("which backend= is meant is not known")
        self._want(scope, texts[0])
        return self._made(texts[0])

    def _written(self, value: Any, *, part: bool = False) -> str:
        source = write_object(value, part=part, find=self._find)
        self._imports |= dict.fromkeys(source.imports)
        self._names |= dict.fromkeys(source.names)
        return source.expression

    def _find(self, value: Any) -> SourceExpression | None:
        """Return the source of an object by the variable that holds it, or by the lambda or definition that made it."""
        if (source := importable(value) or in_script_source(value)) is not None:
            return source
        for scope in self._scopes[self._outer :]:
            if (name := scope.held(value)) is not None:
                scope.wanted.add(name)
                return SourceExpression(name)
        if isinstance(value, types.FunctionType) and "<locals>" in value.__qualname__:
            return self._definition(value)
        return None

    def _definition(self, function: types.FunctionType) -> SourceExpression | None:
        code = function.__code__
        scope = next((each for each in self._scopes[self._outer :] if code in each.code.co_consts), None)
        if scope is None:
            return None
        if function.__name__ != "<lambda>":
            scope.wanted.add(function.__name__)
            return SourceExpression(function.__name__)
        parameters = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        columns: set[int] = set()
        if sys.version_info >= (3, 11):
            columns = {column for *_, column, _ in code.co_positions() if column}
        text = lambda_text(scope.source, code.co_firstlineno, parameters, columns)
        if text is None:
            return None
        self._want(scope, text)
        return SourceExpression(text)

    def _want(self, scope: _Scope, expression: str) -> None:
        """Want the variables of a scope that an expression of its function reads."""
        for name in sorted(_global_names("", expression)):
            if name in scope.body.variables or name in scope.values:
                scope.wanted.add(name)
            else:
                self._note_global(name, scope)

    def _note_global(self, name: str, scope: _Scope) -> None:
        if name not in scope.globals:
            return  # of `builtins`
        if self._globals.setdefault(name, scope.module) != scope.module:
            raise CannotSave(f"{name} is a name of two modules")

    def _made(self, expression: str) -> LocalBackend:
        blocks = self._blocks()
        bound: set[str] = set()
        for block in blocks:
            if clashes := bound & (own := names_assigned(block)):
                raise CannotSave(f"two functions bind {', '.join(sorted(clashes))}")
            bound |= own
        if clashes := bound & {*self._globals, *self._names}:
            raise CannotSave(f"a variable and a name of the module are both {', '.join(sorted(clashes))}")
        held: dict[str, list[str]] = {}
        for name, module in sorted(self._globals.items()):
            held.setdefault(module, []).append(name)
        lines = (f"from {module} import {', '.join(names)}" for module, names in held.items() if module != SCRIPT)
        imports = tuple(dict.fromkeys((*self._imports, *lines)))
        if not any(blocks):
            of_script = {name for name, module in self._globals.items() if module == SCRIPT}
            return LocalBackend(expression, "", imports, tuple(sorted({*of_script, *self._names})))
        factory = _FACTORY
        while factory in self._globals or factory in bound or factory in vars(sys.modules[SCRIPT]):
            factory += "_"
        head = "".join(f"{line}\n" for line in imports) + "\n\n" if imports else ""
        definitions = head + as_function(factory, "".join(blocks), expression)
        return LocalBackend(f"{factory}()", definitions, imports, (factory,))

    def _blocks(self) -> list[str]:
        """Return the statements of each scope, those further out first."""
        blocks: list[str] = []
        for position, scope in enumerate(self._scopes):
            self._outer = position + 1
            if scope.wanted:
                blocks.insert(0, self._block(scope))
        return blocks

    def _block(self, scope: _Scope) -> str:
        # A text that a statement reads from the environment, say, is not written as a literal.
        known = {n for n, value in scope.values.items() if is_constant(value) and not isinstance(value, (str, bytes))}
        lines = scope.body.slice(scope.wanted, known)
        bindings = ""
        for name in sorted(_global_names(lines, "None") | (scope.wanted - names_assigned(lines))):
            if name in scope.values:
                written = self._value(scope, name)
                bindings += f"{name} = {written}\n" if written != name else ""
            elif name in scope.body.variables:
                raise CannotSave(f"{name} of {scope.code.co_name} has no source")
            else:
                self._note_global(name, scope)
        return bindings + lines

    def _value(self, scope: _Scope, name: str) -> str:
        """Return the source of a variable's value; for a parameter, else the expression in the call of the function."""
        before = [set(each.wanted) for each in self._scopes]
        try:
            return self._written(scope.values[name], part=True)
        except CannotSave:
            if name not in scope.body.parameters or not scope.has_caller:
                raise
            for each, wanted in zip(self._scopes, before, strict=True):
                each.wanted = wanted
            caller = self._scopes[self._outer]
            called = type(scope.values.get("self")).__name__ if scope.code.co_name == "__init__" else scope.code.co_name
            text = argument_text(caller.source, caller.line, called, name, scope.body.positional)
            if text is None:
                raise
            self._want(caller, text)
            return text


def _global_names(lines: str, expression: str) -> set[str]:
    try:
        return global_names(lines, expression)
    except (SyntaxError, cst.ParserSyntaxError) as error:
        raise CannotSave(str(error)) from error
