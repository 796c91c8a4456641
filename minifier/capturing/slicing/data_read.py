"""Find the data that a script reads from files, its arguments or the environment, and write it as literals."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m
from libcst.metadata import MetadataWrapper, Scope, ScopeProvider

from minifier.capturing.slicing.module_statements import (
    ModuleStatements,
    Statement,
    bound_by,
    dotted,
    free_names,
    names_of_definitions,
)

# Names that a script reads data by: functions, methods and variables.
_READS = {"open", "read_text", "read_bytes", "argv", "environ", "getenv", "parse_args", "parse_known_args"}
_MAY_READ = re.compile(rf"\b(?:{'|'.join(_READS)})\b")
# What may be evaluated again without effect.
_FUNCTIONS = {
    "open",
    "int",
    "float",
    "str",
    "bool",
    "list",
    "dict",
    "tuple",
    "set",
    "sorted",
    "len",
    "max",
    "min",
    "sum",
}
_MODULES = {"ast", "csv", "io", "json", "math", "pathlib", "tomllib", "yaml"}
_OF_OS = re.compile(r"os\.(?:path\..*|environ(?:\..*)?|getenv|getcwd|fspath)$")
_CHANGING = re.compile(
    r"write|unlink|mkdir|rmdir|rename|replace|touch|pop|clear|update|setdefault|append|extend|remove|insert"
)
_PURE = (
    *(cst.Name, cst.Attribute, cst.Subscript, cst.Index, cst.SubscriptElement, cst.Slice, cst.Arg, cst.Element),
    *(cst.BaseNumber, cst.SimpleString, cst.Tuple, cst.List, cst.Dict, cst.DictElement, cst.BinaryOperation),
    *(cst.UnaryOperation, cst.Call, cst.BaseBinaryOp, cst.BaseUnaryOp, cst.LeftParen, cst.RightParen),
    *(cst.BaseParenthesizableWhitespace, cst.Comma, cst.Dot, cst.AssignEqual, cst.LeftSquareBracket),
    *(cst.RightSquareBracket, cst.LeftCurlyBrace, cst.RightCurlyBrace, cst.Colon),
)


@dataclass(frozen=True, slots=True)
class ReadData:
    """An expression that reads data, or a name that a `with` or `try` of the module binds to data.

    `names` are the names of the module that the value needs. `variables` are those of the environment that it reads.
    """

    text: str
    names: tuple[str, ...]
    variables: tuple[str, ...] = ()


def data_read(source: str) -> tuple[ReadData, ...]:
    """Return what may be data that the source reads, each text once. Raises libcst.ParserSyntaxError."""
    if not _MAY_READ.search(source):
        return ()
    found = _Finder(source)
    return tuple(dict.fromkeys([*found.of_blocks, *found.of_expressions.values()]))


def with_literals(source: str, literals: Mapping[str, str]) -> str:
    """Return the source with literals in the place of data that it reads. Raises libcst.ParserSyntaxError."""
    if not literals or not _MAY_READ.search(source):
        return source
    found = _Finder(source)
    module = found.module.visit(_PutLiterals(found, literals))
    assert isinstance(module, cst.Module)
    return module.code


class _Finder:
    """Finds what reads data in a module."""

    def __init__(self, source: str) -> None:
        wrapper = MetadataWrapper(cst.parse_module(source))
        self.module = wrapper.module
        self._scopes = wrapper.resolve(ScopeProvider)
        self._imports = dict(_imports(self.module))
        statements = ModuleStatements(source).statements
        readers = names_of_definitions(statements, lambda statement: _mentions_reading(statement.node))
        reading = [each for each in statements if not each.is_definition and _runs_reading(each, readers)]
        self._holders = {name for each in reading for name in each.binds - each.imports}
        self.of_expressions: dict[cst.BaseExpression, ReadData] = {}
        self.module.visit(_Expressions(self))
        self.blocks = {
            node: names
            for node in self.module.body
            if isinstance(node, (cst.With, cst.Try)) and (names := self._bound_in(node)) and _mentions_reading(node)
        }
        self.of_blocks = [ReadData(name, (name,)) for names in self.blocks.values() for name in names]

    def _bound_in(self, block: cst.With | cst.Try) -> tuple[str, ...]:
        """Return the names that a block assigns, if it does nothing else."""
        bodies = [block.body, *(handler.body for handler in (block.handlers if isinstance(block, cst.Try) else ()))]
        names: dict[str, None] = {}
        for body in bodies:
            for line in body.body:
                only = line.body[0] if isinstance(line, cst.SimpleStatementLine) else line
                target = only.targets[0].target if isinstance(only, cst.Assign) else None
                if not isinstance(target, cst.Name):
                    return ()
                names[target.value] = None
        return tuple(names)

    def data_of(self, node: cst.BaseExpression) -> ReadData | None:
        """Return the data of an expression; None if it reads none, or if its evaluation may do something else."""
        if isinstance(node, cst.Name) or not isinstance(node, (cst.Call, cst.Attribute, cst.Subscript)):
            return None
        scope = self._scopes.get(node) or self._scopes.get(_root(node))
        if not isinstance(scope, Scope) or not self._is_pure(node):
            return None
        read = free_names(f"({self.module.code_for_node(node)})")
        if not _mentions_reading(node) and self._holders.isdisjoint(read):
            return None
        if not all(self._is_of_module(name, scope) for name in read):
            return None
        variables = _variables(node)
        if variables is None:
            return None
        names = sorted(name for name in read if any(assigned.scope is scope.globals for assigned in scope[name]))
        return ReadData(self.module.code_for_node(node), tuple(names), variables)

    def _is_of_module(self, name: str, scope: Scope) -> bool:
        return all(
            assigned.scope is scope.globals or assigned.scope is scope.globals.parent for assigned in scope[name]
        )

    def _is_pure(self, node: cst.CSTNode) -> bool:
        """Whether the evaluation of an expression only reads."""
        if not isinstance(node, _PURE):
            return False
        if isinstance(node, cst.Call) and not self._only_reads(node):
            return False
        return all(self._is_pure(child) for child in node.children)

    def _only_reads(self, call: cst.Call) -> bool:
        path = dotted(call.func)
        name = call.func.attr.value if isinstance(call.func, cst.Attribute) else path
        if name == "open" and any(map(_is_mode, call.args)):
            return False
        root, _, rest = path.partition(".")
        path = f"{self._imports[root]}.{rest}".rstrip(".") if root in self._imports else path
        if root in self._imports:
            return path.partition(".")[0] in _MODULES or _OF_OS.match(path) is not None
        if isinstance(call.func, cst.Name):
            return path in _FUNCTIONS
        return isinstance(call.func, cst.Attribute) and not _CHANGING.match(call.func.attr.value)


class _Expressions(cst.CSTVisitor):
    """Collects the outermost expressions that read data."""

    def __init__(self, finder: _Finder) -> None:
        super().__init__()
        self._finder = finder

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, (cst.Import, cst.ImportFrom, cst.AssignTarget, cst.Del)):
            return False
        data = self._finder.data_of(node) if isinstance(node, cst.BaseExpression) else None
        if data is not None:
            self._finder.of_expressions[node] = data  # type: ignore[index]
        return data is None


class _PutLiterals(cst.CSTTransformer):
    """Puts literals in the place of expressions, and assignments of literals in the place of blocks."""

    def __init__(self, finder: _Finder, literals: Mapping[str, str]) -> None:
        super().__init__()
        self._finder, self._literals = finder, literals

    def on_leave(  # type: ignore[override]
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode | cst.FlattenSentinel[cst.CSTNode]:
        names = self._finder.blocks.get(original_node, ())  # type: ignore[call-overload]
        if names and all(name in self._literals for name in names):
            lines = "".join(f"{name} = {self._literals[name]}\n" for name in names)
            return cst.FlattenSentinel(list(cst.parse_module(lines).body))
        data = self._finder.of_expressions.get(original_node)  # type: ignore[call-overload]
        if data is not None and data.text in self._literals:
            return cst.parse_expression(self._literals[data.text])
        if isinstance(updated_node, cst.FormattedStringExpression) and isinstance(updated_node.expression, cst.Dict):
            return updated_node.with_changes(whitespace_before_expression=cst.SimpleWhitespace(" "))  # {{ is a brace
        if isinstance(updated_node, cst.FormattedString) and not _is_python(updated_node):
            quoted = updated_node.visit(_SingleQuotes())
            return quoted if isinstance(quoted, cst.FormattedString) and _is_python(quoted) else original_node
        return updated_node


class _SingleQuotes(cst.CSTTransformer):
    """Gives strings single quotes: before Python 3.12, a string in an f-string must not have the quotes of that."""

    def leave_SimpleString(self, original_node: cst.SimpleString, updated_node: cst.SimpleString) -> cst.SimpleString:
        return updated_node.with_changes(value=repr(updated_node.evaluated_value))


def _is_python(node: cst.CSTNode) -> bool:
    try:
        ast.parse(cst.Module([]).code_for_node(node))
    except SyntaxError:
        return False
    return True


def _imports(module: cst.Module) -> Iterator[tuple[str, str]]:
    """Yield (name, dotted path) of what a module imports."""
    for node in m.findall(module, m.Import() | m.ImportFrom()):
        if isinstance(node, cst.Import):
            for alias in node.names:
                name = bound_by(alias)
                yield name, alias.evaluated_name if alias.asname is not None else name
        elif (
            isinstance(node, cst.ImportFrom) and not isinstance(node.names, cst.ImportStar) and node.module is not None
        ):
            of = dotted(node.module)
            yield from (
                (each.evaluated_alias or each.evaluated_name, f"{of}.{each.evaluated_name}") for each in node.names
            )


def _mentions_reading(node: cst.CSTNode) -> bool:
    names = m.findall(node, m.Name())
    return any(isinstance(name, cst.Name) and name.value in _READS for name in names)


def _runs_reading(statement: Statement, readers: set[str]) -> bool:
    return _mentions_reading(statement.node) or not statement.calls.isdisjoint(readers)


def _root(node: cst.BaseExpression) -> cst.BaseExpression:
    while isinstance(node, (cst.Attribute, cst.Subscript, cst.Call)):
        node = node.func if isinstance(node, cst.Call) else node.value
    return node


def _variables(node: cst.BaseExpression) -> tuple[str, ...] | None:
    """Return the variables of the environment that an expression reads; None if they are computed."""
    code = cst.Module([]).code_for_node(node)
    named = re.findall(r"""(?:environ(?:\.get\(|\[)|getenv\()\s*["'](\w+)["']""", code)
    return tuple(named) if len(named) == len(re.findall(r"\b(?:environ|getenv)\b", code)) else None


def _is_mode(arg: cst.Arg) -> bool:
    """Whether an argument of `open` may be a mode in which the file is written."""
    if arg.keyword is not None and arg.keyword.value != "mode":
        return False
    if arg.keyword is not None and not isinstance(arg.value, cst.SimpleString):
        return True
    text = arg.value.evaluated_value if isinstance(arg.value, cst.SimpleString) else None
    return isinstance(text, str) and re.fullmatch(r"[rbt]*[wax+][rbtwax+]*", text) is not None
