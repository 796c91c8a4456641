"""Short names for inputs and values."""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Iterable, Iterator

from minifier.case import Case, TensorInput

_INPUTS = "xyzuvpqrst"
_VALUES = "abcdefghijklmno"
# Names that the templates use for themselves.
OF_TEMPLATES = {
    "actual", "attempt", "compiled", "compiler", "error", "error_of", "expected", "f", "faulthandler", "fn",
    "Function", "graph", "inputs", "resource", "sharing", "tangent", "tangents", "tensors", "torch",
}  # fmt: skip


def _numbered(letters: Iterable[str]) -> Iterator[str]:
    letters = tuple(letters)
    yield from letters
    number = 1
    while True:
        yield from (f"{letter}{number}" for letter in letters)
        number += 1


class Names:
    """Gives each node of a Case its name in the script; no name is given twice."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = {*OF_TEMPLATES, *taken, *keyword.kwlist, *dir(builtins)}
        self._inputs, self._values = _numbered(_INPUTS), _numbered(_VALUES)

    def _free(self, wanted: Iterator[str]) -> str:
        name = next(name for name in wanted if name not in self._taken)
        self._taken.add(name)
        return name

    def for_input(self, case: Case, node: str) -> str:
        """`w` and `b` for weights and biases, `grad` for what comes into a backward pass, else x, y, z and so on."""
        item = next((i for i in case.inputs if i.name == node), None)
        if isinstance(item, TensorInput) and "parameters" in node:
            return self._free(_numbered("b" if node.rstrip("_").endswith("bias") else "w"))
        if node.startswith("tangents"):
            return self._free(_numbered(("grad",)))
        return self._free(self._inputs)

    def for_result(self) -> str:
        """A name for what the function gives back: the next of x, y, z and so on."""
        return self._free(self._inputs)

    def for_value(self) -> str:
        """The next of a, b, c and so on."""
        return self._free(self._values)
