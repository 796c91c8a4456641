"""Types of fields that say more than `str` or `int`: each has the check that a value read from a file has to pass.

`name: Identifier` in a dataclass is a `str` to Python, and data/case/serial.py refuses `{"name": "a b"}`. Python source
is parsed and never run.
"""

from __future__ import annotations

import ast
import functools
import keyword
import re
from collections.abc import Callable, Collection
from typing import Annotated, Any

Check = Callable[[Any], None]  # raises ValueError

MAX_NUMBER = 2**1000  # of an argument or a bound; every such integer has a float
MAX_SIZE = 2**63 - 1  # torch counts sizes, strides and elements in 64 bits
MAX_SECONDS = 10**9
_MAX_CALLS = 10**6  # of a compiled function; each is a call in every probe
_MAX_FILE_NAME_BYTES = 255
_MAX_SOURCE_CHARACTERS = 2**24
_MAX_SOURCE_DEPTH = 300  # of nested expressions and statements: an `elif` is two levels, a term of a sum is one


class Defect(ValueError):
    """Data that do not fit their type. `place` is the path to them, as `.inputs[3].name`."""

    def __init__(self, sentence: str, place: str = "") -> None:
        super().__init__(sentence)
        self.sentence, self.place = sentence, place

    def __str__(self) -> str:
        place = self.place.removeprefix(".")
        return f"{place}: {self.sentence}" if place else self.sentence


def within(step: str, error: Exception) -> Defect:
    """Return the defect as seen from one level further out: `step` is `.field` or `[position]`."""
    if isinstance(error, Defect):
        return Defect(error.sentence, step + error.place)
    return Defect(str(error), step)


def shown(value: object) -> str:
    """Return the value as it stands in a message, shortened."""
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:60]}... ({len(text)} characters)"


def _refuse(what: str, value: object) -> None:
    raise ValueError(f"expected {what}, found {shown(value)}")


# Numbers.


def number(value: Any) -> None:
    """Raise ValueError for an integer that no float can hold."""
    if type(value) is int and not -MAX_NUMBER <= value <= MAX_NUMBER:
        raise ValueError("the integer has more than 1,000 bits")


def between(low: float, high: float) -> Check:
    """Return the check for a number from `low` to `high`; None passes, NaN does not."""

    def check(value: float | None) -> None:
        if value is not None and not low <= value <= high:
            _refuse(f"a number from {low:.3g} to {high:.3g}", value)

    return check


Natural = Annotated[int, between(0, MAX_SIZE)]
Times = Annotated[int, between(1, _MAX_CALLS)]
Seconds = Annotated[float, between(0, MAX_SECONDS)]
NotNegative = Annotated[float, between(0, float("inf"))]
Rate = Annotated[float, between(1e-9, 1.0)]


# Texts.


def _matching(pattern: str, what: str) -> Check:
    compiled = re.compile(pattern)

    def check(value: str) -> None:
        if not compiled.fullmatch(value):
            _refuse(what, value)

    return check


def one_of(values: Collection[str]) -> Check:
    """Return the check for one of these texts."""
    return _matching("|".join(values), f"one of {', '.join(sorted(values))}")


def _or_nothing(check: Check) -> Check:
    return lambda value: check(value) if value else None


def text(value: str) -> None:
    """Raise ValueError for text that no file and no script can hold."""
    if "\0" in value:
        raise ValueError("it has a null byte")
    if not value.isascii() and re.search("[\ud800-\udfff]", value):
        raise ValueError("it has a lone surrogate, which is no character")


def identifier(value: str) -> None:
    """Raise ValueError unless Python code can bind this name."""
    if not value.isidentifier() or keyword.iskeyword(value):
        _refuse("an identifier", value)


def _word(value: str) -> None:
    """An identifier or a keyword of Python: ATen has a parameter `from`, and an overload."""
    if not value.isidentifier():
        _refuse("an identifier", value)


def _dotted(value: str) -> None:
    for part in value.split("."):
        identifier(part)


def import_path(value: str) -> None:
    """Raise ValueError unless the text is `package.name`, `module:qualname` or `__main__:expression`."""
    module, colon, rest = value.partition(":")
    if module == "__main__" and colon:
        expression(rest)
        return
    for part in (rest if colon else module).split("."):
        _word(part)
    if colon:
        _dotted(module)


item_path = _matching(r"[^.\0]+(\.[^.\0]+)*", "the path of an attribute")  # a ModuleDict's keys have any character
device = _matching(r"[a-z_][a-z0-9_]{0,40}(:\d{1,5})?", "a device")
_DTYPE = r"(?:b?float|u?int|qu?int|complex|bits)(\d{1,3})[a-z0-9_]{0,20}|bool"
dtype = _matching(_DTYPE, "a dtype")
_arithmetic = _matching(r"[\w\s.+\-*/%(),<>=&|~]+", "an expression of sizes")


@functools.cache
def item_bytes(name: str) -> int:
    """Return the size of an element of this dtype in bytes; 1 for a dtype of less than a byte."""
    found = re.fullmatch(_DTYPE, name)
    return max(1, int(found[1]) // 8) if found is not None and found[1] else 1


def source(value: str, mode: str = "exec", max_depth: int = _MAX_SOURCE_DEPTH) -> Any:
    """Return the body of the parsed source. Raises ValueError, also for source that is too long or too deep."""
    text(value)
    if len(value) > _MAX_SOURCE_CHARACTERS:
        raise ValueError(f"it has {len(value)} characters, more than {_MAX_SOURCE_CHARACTERS}")
    try:
        tree: Any = ast.parse(value, mode=mode)
    except SyntaxError as error:
        raise ValueError(f"it is no Python: {error.msg} (line {error.lineno}): {shown(value)}") from None
    except (RecursionError, MemoryError):
        raise ValueError("its source is nested too deeply") from None
    level: list[ast.AST] = [tree]
    for _ in range(max_depth):
        level = [child for node in level for child in ast.iter_child_nodes(node)]
        if not level:
            return tree.body
    raise ValueError(f"its source is nested deeper than {max_depth} levels")


def _import_line(value: str) -> None:
    statements = source(value)
    if not statements or not all(isinstance(s, (ast.Import, ast.ImportFrom)) for s in statements):
        _refuse("an import statement", value)


def expression(value: str) -> None:
    """Raise ValueError unless the text is one Python expression, which a call can take as an argument."""
    call, alone = source(f"f(k={value})", "eval"), source(value, "eval")  # a comma at its end would reach beyond it
    given = call.keywords if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) else ()
    if value != value.strip() or [ast.dump(each.value) for each in given] != [ast.dump(alone)] or call.args:
        _refuse("an expression", value)


@functools.lru_cache(maxsize=2**12)
def _symbolic(value: str) -> None:
    _arithmetic(value)
    source(value.strip(), "eval")


def _file_name(value: str) -> None:
    text(value)
    if value in ("", ".", "..") or "/" in value or len(value.encode()) > _MAX_FILE_NAME_BYTES:
        _refuse("a plain file name", value)


def regex(value: str) -> None:
    """Raise ValueError unless the text is a regular expression."""
    try:
        re.compile(value)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"{shown(value)} is no regular expression: {error}") from None


Text = Annotated[str, text]
# No control characters: a comment of a repro holds it.
Line = Annotated[str, _matching("[^\\x00-\\x1f\\x7f-\\x9f\u2028\u2029\ud800-\udfff]*", "one line")]
Folder = Annotated[str, _matching(r"[^\0]*", "a path")]
FileName = Annotated[str, _file_name]  # of output folders
Variable = Annotated[str, _matching("[^=\\0\ud800-\udfff]+", "the name of an environment variable")]
Dtype = Annotated[str, dtype]
Device = Annotated[str, device]
ItemPath = Annotated[str, item_path]
Operator = Annotated[str, _matching(r"[A-Za-z_]\w*::[A-Za-z_]\w*(\.\w+)?", "an operator `ns::op`")]
Identifier = Annotated[str, identifier]
Word = Annotated[str, _word]
Dotted = Annotated[str, _dotted]
ImportPath = Annotated[str, import_path]
Expression = Annotated[str, expression]
ImportLine = Annotated[str, _import_line]
Source = Annotated[str, source]
Symbolic = Annotated[str, _symbolic]
ImportPathOrNone = Annotated[str, _or_nothing(import_path)]
ExpressionOrNone = Annotated[str, _or_nothing(expression)]
