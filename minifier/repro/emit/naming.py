"""Short names for inputs and values."""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Iterable, Iterator

from minifier.data.case import Case, TensorInput

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
