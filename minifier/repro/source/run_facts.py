"""What one run of a script showed about its expressions: tells edits that can only break the script."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

import libcst as cst

TENSOR, NUMBER, CALLABLE = "tensor", "number", "callable"
HISTORY = "grad_fn"  # at the end of the kind of a tensor that gradients flow through
Recorded = dict[str, list[str]]
"""{text of an expression: kinds of its values}. The kind of a plain tensor has dtype, shape and `HISTORY`. The kind of
a number that is always the same has the number."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A plain tensor. `has_history`: gradients flow through it to others."""

    dtype: str
    shape: list[int]
    has_history: bool


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What was recorded of a script's expressions, by their text; {} for a script that was not run."""

    recorded: Recorded = field(default_factory=dict)

    def kind(self, node: cst.CSTNode) -> str | None:
        """Return the kind of the expression's values; None if it is unknown, or not always the same."""
        if isinstance(node, cst.BaseNumber) or (isinstance(node, cst.Name) and node.value in ("True", "False")):
            return NUMBER
        kinds = self._kinds(node)
        return kinds[0] if len({kind.split()[0] for kind in kinds}) == 1 else None

    def tensor(self, node: cst.CSTNode) -> Tensor | None:
        """Return what a plain tensor is; None for another value, or one that is not always the same."""
        kinds = self._kinds(node)
        if len(kinds) != 1 or not kinds[0].startswith(f"{TENSOR} "):
            return None
        dtype, _, rest = kinds[0].removeprefix(f"{TENSOR} ").partition(" ")
        return Tensor(dtype, ast.literal_eval(rest.removesuffix(HISTORY).strip()), rest.endswith(HISTORY))

    def number(self, node: cst.CSTNode) -> str:
        """Return the literal of a number; "" for another value, or one that is not always the same."""
        kinds = self._kinds(node)
        return kinds[0].removeprefix(NUMBER).strip() if len(kinds) == 1 and kinds[0].startswith(NUMBER) else ""

    def allow(self, old: cst.CSTNode, new: cst.CSTNode) -> bool:
        """Return whether `new` may take the place of `old`: a value of another kind breaks the script."""
        before, after = self.kind(old), self.kind(new)
        return before is None or after is None or before.split()[0] == after.split()[0]

    def differ(self, old: cst.CSTNode, new: cst.CSTNode) -> bool:
        """Return whether both are known, and the values are not alike: tensors of another shape, say."""
        before, after = self.kind(old), self.kind(new)
        if before is None or after is None or {before.split()[0], after.split()[0]} == {NUMBER}:
            return False
        return before != after

    def _kinds(self, node: cst.CSTNode) -> list[str]:
        try:  # as the recorded texts are written
            text = ast.unparse(ast.parse(cst.Module([]).code_for_node(node).strip(), mode="eval"))
        except (SyntaxError, ValueError):
            return []
        return self.recorded.get(text, [])
