"""The edit that leaves out comments."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
from libcst import matchers as m

from minifier.source.put_value import Edited, applied


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
