"""Checks of texts that a Case brings: names, paths, and Python source, which is parsed and never run."""

from __future__ import annotations

import ast
import functools
import keyword
import re
from collections.abc import Callable

MAX_NAME_CHARACTERS = 4096  # of a name, and of a path: PATH_MAX
MAX_EXPRESSION_CHARACTERS = 100_000
MAX_SYMBOLIC_CHARACTERS = 10_000
MAX_SOURCE_CHARACTERS = 2**24
MAX_SOURCE_DEPTH = 300  # of nested expressions and statements: an `elif` is two levels, a term of a sum is one
_MAX_FILE_NAME_BYTES = 255  # what file systems take

_DTYPE = re.compile(r"(?:b?float|u?int|qu?int|complex|bits)(\d{1,3})[a-z0-9_]{0,20}|bool")
_DEVICE = re.compile(r"[a-z_][a-z0-9_]{0,40}(?::\d{1,5})?")
_OPERATOR = re.compile(r"[A-Za-z_]\w*::[A-Za-z_]\w*(?:\.\w+)?")
_VARIABLE = re.compile(r"[A-Za-z_]\w*")
_ITEM = re.compile(r"[^.\0]+(?:\.[^.\0]+)*")  # keys of a ModuleDict may have any other character
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_SYMBOLIC = (
    ast.Expression, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Call, ast.Name, ast.Constant, ast.Load,
    ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.IfExp, ast.Tuple,
)  # fmt: skip

_cached = functools.lru_cache(maxsize=2**12)


def shown(value: object) -> str:
    """Return the value as it stands in a message, shortened."""
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:60]}... ({len(text)} characters)"


def text(value: str) -> None:
    """Raise ValueError for text that no file and no script can hold."""
    if "\0" in value:
        raise ValueError("it has a null byte")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise ValueError("it has a lone surrogate, which is no character") from None


def line(value: str) -> None:
    """Raise ValueError for text of several lines, or with control characters."""
    text(value)
    if _CONTROL.search(value):
        raise ValueError(f"expected one line, found {shown(value)}")


def _refuse(what: str, value: str) -> None:
    raise ValueError(f"expected {what}, found {shown(value)}")


def is_identifier(value: str) -> bool:
    """Tell whether the text is a name that Python code can bind."""
    return value.isidentifier() and not keyword.iskeyword(value) and len(value) <= MAX_NAME_CHARACTERS


@_cached
def identifier(value: str) -> None:
    """Raise ValueError unless the text is an identifier, and no keyword."""
    if not is_identifier(value):
        _refuse("an identifier", value)


def keyword_name(value: str) -> None:
    """Raise ValueError unless the text is an identifier, or a keyword of Python: ATen has a parameter `from`."""
    if len(value) > MAX_NAME_CHARACTERS or not value.isidentifier():
        _refuse("an identifier", value)


def dotted(value: str) -> None:
    """Raise ValueError unless the text is identifiers with dots between them; ATen has an overload `from`."""
    if len(value) > MAX_NAME_CHARACTERS or not all(part.isidentifier() for part in value.split(".")):
        _refuse("a dotted name", value)


def attributes(value: str) -> None:
    """Raise ValueError unless the text is identifiers with dots between them, none of them a keyword."""
    if not all(map(is_identifier, value.split("."))):
        _refuse("a dotted name", value)


def item_path(value: str) -> None:
    """Raise ValueError unless the text is the path of a submodule or parameter: `layers.0.weight`."""
    if len(value) > MAX_NAME_CHARACTERS or not _ITEM.fullmatch(value):
        _refuse("the path of an attribute", value)


@_cached
def import_path(value: str) -> None:
    """Raise ValueError unless the text is `package.name`, `module:qualname` or `__main__:expression`."""
    module, colon, rest = value.partition(":")
    (attributes if colon else dotted)(module)
    if module == "__main__" and colon:
        expression(rest)
    elif colon:
        dotted(rest)


def member_path(value: str) -> None:
    """Raise ValueError unless the text is an import path of something inside a module."""
    import_path(value)
    if "." not in value and ":" not in value:
        _refuse("a function of a module", value)


def dtype(value: str) -> None:
    """Raise ValueError unless the text can be the name of a dtype."""
    if not _DTYPE.fullmatch(value):
        _refuse("a dtype", value)


@_cached
def item_bytes(name: str) -> int:
    """Return the size of an element of this dtype in bytes; 1 for a dtype of less than a byte."""
    found = _DTYPE.fullmatch(name)
    return max(1, int(found[1]) // 8) if found is not None and found[1] else 1


def device(value: str) -> None:
    """Raise ValueError unless the text can be a device: `cpu`, `cuda:1`."""
    if not _DEVICE.fullmatch(value):
        _refuse("a device", value)


def operator(value: str) -> None:
    """Raise ValueError unless the text is the name of a custom operator, `ns::op`."""
    if len(value) > MAX_NAME_CHARACTERS or not _OPERATOR.fullmatch(value):
        _refuse("an operator `ns::op`", value)


def variable(value: str) -> None:
    """Raise ValueError unless the text can be the name of an environment variable."""
    if len(value) > MAX_NAME_CHARACTERS or not _VARIABLE.fullmatch(value):
        _refuse("the name of an environment variable", value)


def folder(value: str) -> None:
    """Raise ValueError for a path that no file system takes."""
    if "\0" in value or len(value) > MAX_NAME_CHARACTERS:
        _refuse("the path of a folder", value)


def file_name(value: str) -> None:
    """Raise ValueError unless the text is the name of a file, and no path: output folders are named after it."""
    size = len(value.encode(errors="surrogateescape" if not value.isascii() else "strict"))
    if value in ("", ".", "..") or "/" in value or "\0" in value or size > _MAX_FILE_NAME_BYTES:
        _refuse("a plain file name", value)


def _parsed(value: str, mode: str, limit: int, max_depth: int = MAX_SOURCE_DEPTH) -> ast.AST:
    """Return the syntax tree. Raises ValueError, also for source that is too long or too deep."""
    text(value)
    if len(value) > limit:
        raise ValueError(f"it has {len(value)} characters, more than {limit}")
    try:
        tree = ast.parse(value, mode=mode)
    except SyntaxError as error:
        raise ValueError(f"it is no Python: {error.msg} (line {error.lineno}): {shown(value)}") from None
    except (RecursionError, MemoryError):
        raise ValueError("its source is nested too deeply") from None
    level: list[ast.AST] = [tree]
    for _ in range(max_depth):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return tree
    raise ValueError(f"its source is nested deeper than {max_depth} levels")


@_cached
def import_line(value: str) -> None:
    """Raise ValueError unless the text is import statements and nothing else."""
    tree = _parsed(value, "exec", MAX_EXPRESSION_CHARACTERS)
    statements = tree.body if isinstance(tree, ast.Module) else []
    absolute = [
        isinstance(node, ast.Import) or (isinstance(node, ast.ImportFrom) and not node.level) for node in statements
    ]
    if not absolute or not all(absolute):
        _refuse("an import statement", value)


@_cached
def expression(value: str) -> None:
    """Raise ValueError unless the text is one Python expression, which a call can take as an argument."""
    body = _parsed(value, "eval", MAX_EXPRESSION_CHARACTERS).body  # type: ignore[attr-defined]
    try:  # a comment or a comma at its end would reach beyond it
        call = ast.parse(f"f(k={value})", mode="eval").body
        fits = isinstance(call, ast.Call) and ast.dump(call.keywords[0].value) == ast.dump(body)
    except (SyntaxError, IndexError):
        fits = False
    if not fits or value != value.strip() or len(call.keywords) != 1:  # type: ignore[attr-defined]
        _refuse("an expression", value)


def statements(value: str, max_depth: int = MAX_SOURCE_DEPTH) -> None:
    """Raise ValueError unless the text is Python source."""
    _parsed(value, "exec", MAX_SOURCE_CHARACTERS, max_depth)


def regex(value: str) -> None:
    """Raise ValueError unless the text is a regular expression."""
    try:
        re.compile(value)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"{shown(value)} is no regular expression: {error}") from None


@_cached
def symbolic(value: str) -> None:
    """Raise ValueError unless the text is arithmetic over symbols: `2*s77`, `Max(2, s1)`."""
    tree = _parsed(value.strip(), "eval", MAX_SYMBOLIC_CHARACTERS)
    for node in ast.walk(tree):
        if not isinstance(node, _SYMBOLIC) or (isinstance(node, ast.Constant) and isinstance(node.value, (str, bytes))):
            _refuse("an expression of sizes", value)


def optional(check: Callable[[str], None]) -> Callable[[str | None], None]:
    """Return the check that passes over None and the empty text as well."""
    return lambda value: check(value) if value else None
