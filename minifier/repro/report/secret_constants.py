"""Constants of a program that look like secrets: where they are, and the program with placeholders for them."""

from __future__ import annotations

import io
import tokenize
from dataclasses import dataclass

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from minifier.repro.report.redact import Redactor
from minifier.repro.source.statement_tree import deep_sources

MAX_DEPTH = 1000  # levels of nested expressions; a sum of terms has one for each


@dataclass(frozen=True, slots=True)
class SecretConstant:
    """A constant of repro.py that looks like a secret: its line, and the kind of secret."""

    line: int
    kind: str

    def __str__(self) -> str:
        return f"line {self.line} ({self.kind})"


class _Replacing(cst.CSTTransformer):
    """Replaces secrets in strings by placeholders, and notes their lines."""

    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self, redactor: Redactor) -> None:
        super().__init__()
        self._redactor = redactor
        self.constants: list[SecretConstant] = []

    def _note(self, node: cst.CSTNode, text: str) -> bool:
        spans = self._redactor.find(text)
        line = self.get_metadata(PositionProvider, node).start.line
        self.constants += [SecretConstant(line, span.kind) for span in spans]
        return bool(spans)

    def leave_SimpleString(self, original_node: cst.SimpleString, updated_node: cst.SimpleString) -> cst.BaseExpression:
        value = original_node.evaluated_value
        text = value.decode("latin-1") if isinstance(value, bytes) else value
        if not self._note(original_node, text):
            return updated_node
        text = self._redactor.replaced(text)
        return updated_node.with_changes(value=repr(text.encode("latin-1") if isinstance(value, bytes) else text))

    def leave_FormattedStringText(
        self, original_node: cst.FormattedStringText, updated_node: cst.FormattedStringText
    ) -> cst.FormattedStringText:
        if not self._note(original_node, original_node.value):
            return updated_node
        return updated_node.with_changes(value=self._redactor.replaced(original_node.value))

    def leave_ConcatenatedString(
        self, original_node: cst.ConcatenatedString, updated_node: cst.ConcatenatedString
    ) -> cst.BaseExpression:
        value = updated_node.evaluated_value  # None with an f-string in it
        if not isinstance(value, str) or not self._note(original_node, value):
            return updated_node
        return cst.SimpleString(repr(self._redactor.replaced(value)))


def without_secret_constants(program: str, redactor: Redactor) -> tuple[str, tuple[SecretConstant, ...]]:
    """Return the program with placeholders in its strings, and the constants that have one now."""
    try:
        wrapper = MetadataWrapper(cst.parse_module(program), unsafe_skip_copy=True)
    except cst.ParserSyntaxError:
        return program, ()
    replacing = _Replacing(redactor)
    with deep_sources():
        changed = wrapper.visit(replacing)
    constants = tuple(sorted(set(replacing.constants), key=lambda constant: (constant.line, constant.kind)))
    return (changed.code, constants) if constants else (program, ())


def without_secret_comments(program: str, redactor: Redactor) -> str:
    """Return the program with marks for the secrets in its comments; its code stays."""
    lines = program.splitlines(keepends=True)
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(program).readline))
    except (tokenize.TokenError, SyntaxError):
        return program
    for token in tokens:
        if token.type == tokenize.COMMENT:
            row, column = token.start[0] - 1, token.start[1]
            rest = lines[row][column + len(token.string) :]
            lines[row] = lines[row][:column] + redactor.marked(token.string) + rest
    return "".join(lines)
