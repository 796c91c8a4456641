"""Edits that make numbers small, and leave out comments."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from libcst import matchers as m

from minifier.source.put_value import Edited, applied

_SMALL = 2


def small_values(module: cst.Module) -> Iterator[Edited]:
    """Yield the module with every occurrence of a number replaced: an integer by 1 or 2, another number by 1.0.

    All occurrences change together: equal sizes stay equal.
    """
    numbers = (node for node in m.findall(module, m.Integer() | m.Float()))
    texts = dict.fromkeys(node.value for node in numbers if isinstance(node, (cst.Integer, cst.Float)))
    for text in texts:
        if not text.isdigit():
            if "." in text and text not in ("0.0", "1.0"):
                yield from applied(module, _Number(text, cst.Float("1.0")))
        elif int(text) > 1:
            for value in range(1, min(int(text), _SMALL + 1)):
                yield from applied(module, _Number(text, cst.Integer(str(value))))


class _Number(cst.CSTTransformer):
    def __init__(self, text: str, value: cst.BaseNumber) -> None:
        super().__init__()
        self.text, self.value = text, value

    def leave_Integer(self, original_node: cst.Integer, updated_node: cst.Integer) -> cst.BaseExpression:
        return self.value if original_node.value == self.text else updated_node

    def leave_Float(self, original_node: cst.Float, updated_node: cst.Float) -> cst.BaseExpression:
        return self.value if original_node.value == self.text else updated_node


def without_comments(module: cst.Module) -> Iterator[Edited]:
    """Yield the module without its comments, if any: they describe the original script."""
    if m.findall(module, m.Comment()):
        yield from applied(module, _WithoutComments())


class _WithoutComments(cst.CSTTransformer):
    def leave_TrailingWhitespace(
        self, original_node: cst.TrailingWhitespace, updated_node: cst.TrailingWhitespace
    ) -> cst.TrailingWhitespace:
        if original_node.comment is None:
            return updated_node
        return updated_node.with_changes(comment=None, whitespace=cst.SimpleWhitespace(""))

    def leave_EmptyLine(
        self, original_node: cst.EmptyLine, updated_node: cst.EmptyLine
    ) -> cst.EmptyLine | cst.RemovalSentinel:
        return updated_node if original_node.comment is None else cst.RemoveFromParent()
