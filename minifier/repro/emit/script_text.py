"""The text of a repro: short names, the user's definitions, names that clash, the page from imports to footer."""

from __future__ import annotations

import ast
import builtins
import io
import keyword
import re
import sys
import textwrap
import tokenize
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import libcst as cst
from libcst import matchers as m

from minifier.data.case import Case, TensorInput
from minifier.data.case.literals import packages_imported

_INPUT_LETTERS = "xyzuvpqrst"
_VALUE_LETTERS = "abcdefghijklmno"
TEMPLATE_NAMES = {
    "actual", "attempt", "compiled", "compiler", "copy", "error", "error_of", "expected", "f", "faulthandler", "fn",
    "first", "Function", "graph", "inputs", "message", "resource", "second", "sharing", "tangent", "tangents",
    "tensors", "torch",
}  # fmt: skip


def _numbered(letters: Iterable[str]) -> Iterator[str]:
    letters = tuple(letters)
    yield from letters
    number = 1
    while True:
        yield from (f"{letter}{number}" for letter in letters)
        number += 1


class Names:
    """Generates unique names for the nodes of a Case."""

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self._used = {*TEMPLATE_NAMES, *reserved, *keyword.kwlist, *dir(builtins)}
        self._inputs, self._values = _numbered(_INPUT_LETTERS), _numbered(_VALUE_LETTERS)

    def _unused(self, candidates: Iterator[str]) -> str:
        name = next(name for name in candidates if name not in self._used)
        self._used.add(name)
        return name

    def for_input(self, case: Case, node: str) -> str:
        """Return `w` or `b` for a weight or bias, `grad` for a tangent of a backward pass, else x, y, z, ..."""
        item = next((i for i in case.inputs if i.name == node), None)
        if isinstance(item, TensorInput) and "parameters" in node:
            return self._unused(_numbered("b" if node.rstrip("_").endswith("bias") else "w"))
        if node.startswith("tangents"):
            return self._unused(_numbered(("grad",)))
        return self._unused(self._inputs)

    def for_base(self) -> str:
        """Return a name for a tensor that several inputs are views of: base, base1, ..."""
        return self._unused(_numbered(("base",)))

    def for_result(self) -> str:
        """Return a name for the function's result: the next of x, y, z, ..."""
        return self._unused(self._inputs)

    def for_value(self) -> str:
        """Return the next of a, b, c, ..."""
        return self._unused(self._values)


_MARK = "of_the_script__"


def script_name(expression: str) -> str:
    """Mark a name of the user's script, to tell the name from the template's."""
    return f"{_MARK}{expression}"


def mark_names(expression: str, names: Collection[str]) -> str:
    """Return the expression with every occurrence of `names` marked as a name of the user's script."""
    return _renamed(expression, lambda name: script_name(name) if name in names else name)


def keep_script_names(text: str, script_names: Collection[str]) -> str:
    """Return the template's text with unmarked script names; clashing template names get a `_` appended."""

    def kept(name: str) -> str:
        if name.startswith(_MARK):
            return name.removeprefix(_MARK)
        return f"{name}_" if name in script_names else name

    return _renamed(text, kept)


def _renamed(text: str, new_name: Callable[[str], str]) -> str:
    """Rename the variables of the text: all names but those of attributes and of keyword arguments."""
    lines = text.split("\n")
    tokens = [*tokenize.generate_tokens(io.StringIO(text).readline)]
    depth, renames = 0, []
    for before, token, after in zip([tokens[0], *tokens], tokens, tokens[1:], strict=False):
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(token.string, 0)
        is_keyword = depth > 0 and after.string == "="
        if token.type == tokenize.NAME and before.string != "." and not is_keyword:
            renames.append((*token.start, token.string))
    for row, column, name in reversed(renames):
        line = lines[row - 1]
        lines[row - 1] = f"{line[:column]}{new_name(name)}{line[column + len(name) :]}"
    return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Definitions:
    """Code taken from the script: `future` imports, other top-level `imports`, the source of all other statements."""

    future: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    source: str = ""


def split_imports(source: str) -> Definitions:
    """Separate the imports that can move to the head of a script from the other statements."""
    future: list[str] = []
    imports: list[str] = []
    rest: list[cst.SimpleStatementLine | cst.BaseCompoundStatement] = []
    for statement in cst.parse_module(source).body:
        if m.matches(statement, m.SimpleStatementLine([m.Import() | m.ImportFrom()])):
            lines = single_imports(cst.Module([statement]).code)
            (future if lines[0].startswith("from __future__") else imports).extend(lines)
        else:
            assert isinstance(statement, (cst.SimpleStatementLine, cst.BaseCompoundStatement))
            rest.append(statement)
    return Definitions(tuple(future), tuple(imports), cst.Module(rest).code.strip())


def predicate_source(text: str) -> Definitions:
    """Separate the imports of the user's predicate, without its docstring and its `if __name__ == ...` block."""
    module = cst.parse_module(text)
    statements = module.body[1:] if module.get_docstring() is not None else module.body
    kept = [s for s in statements if not (isinstance(s, cst.If) and "__name__" in module.code_for_node(s.test))]
    return split_imports(cst.Module(kept).code)


def single_imports(source: str) -> list[str]:
    """Return the import statements of the source, each in a line of its own for each module, without comments."""
    return [
        ast.unparse(single)
        for node in ast.parse(source).body
        for single in ([ast.Import([alias]) for alias in node.names] if isinstance(node, ast.Import) else [node])
    ]


def statements_of(text: str) -> list[tuple[ast.stmt, str]]:
    """Return the top-level statements of the text, each with its source lines, decorators included."""
    lines, statements = text.split("\n"), []
    for node in ast.parse(text).body:
        first = min(each.lineno for each in (node, *getattr(node, "decorator_list", ())))
        statements.append((node, "\n".join(lines[first - 1 : node.end_lineno])))
    return statements


def replaced_at_once(text: str, new_texts: Mapping[str, str]) -> str:
    """Replace each key by its value wherever it occurs, the longest first; nothing that was put in is replaced."""
    keys = "|".join(map(re.escape, sorted(new_texts, key=len, reverse=True)))
    return re.sub(keys, lambda found: new_texts[found[0]], text) if keys else text


def blank_lines_above(source: str) -> int:
    """Return how many blank lines a statement has above it: 2 for a definition."""
    return 2 if source.startswith(("@", "async def ", "class ", "def ")) else 1


def under(header: str, statements: Iterable[str]) -> str:
    """Return a compound statement with this header (`for attempt in range(3):`) and body."""
    return f"{header}\n{textwrap.indent(chr(10).join(statements), '    ')}"


def under_contexts(statements: Sequence[str], contexts: Sequence[str]) -> list[str]:
    """Put the statements under one `with`, if there are contexts."""
    return [under(f"with {', '.join(contexts)}:", statements)] if contexts else [*statements]


def page(blocks: Iterable[tuple[int, Sequence[str]]]) -> str:
    """Join (blank lines above, statements) blocks. Empty blocks are left out, the first has no blank lines above."""
    text = ""
    for blank_lines, statements in blocks:
        if statements:
            text += "\n" * (blank_lines if text else 0) + "\n".join(statements) + "\n"
    return text


def sorted_imports(lines: Collection[str]) -> list[str]:
    """Sort import lines, and merge `from` imports of the same module."""
    names: dict[str, dict[str, None]] = {}
    for line in sorted(single_imports("\n".join(lines)), key=_import_order):
        module, _, imported = line.partition(" import ")
        names.setdefault(module, {}).update(dict.fromkeys(imported.split(", ") if imported else []))
    return [f"{module} import {', '.join(imported)}" if imported else module for module, imported in names.items()]


def is_stdlib(line: str) -> bool:
    """Tell whether the import line is of the standard library."""
    return packages_imported(line) <= sys.stdlib_module_names


def _import_order(line: str) -> tuple[bool, bool, str, str]:
    """Return the sort key: standard library first, `import` before `from`, torch before other packages."""
    return not is_stdlib(line), line.startswith("from"), line if packages_imported(line) != {"torch"} else "", line
