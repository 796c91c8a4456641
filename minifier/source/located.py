"""A source with the places of its nodes: turns an edit into a patch that leaves whole definitions as they are."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import replace
from itertools import pairwise, starmap

import libcst as cst
from libcst.metadata import MetadataWrapper, WhitespaceInclusivePositionProvider

from minifier.source.patches import Patch, Replacement, difference, patched
from minifier.source.put_value import Applied, Edited
from minifier.source.run_facts import RunFacts
from minifier.source.tree import is_whole

_NEWLINE = re.compile(r"\r\n|\r|\n")
_ABOVE = re.compile(r"(?:[ \t\f]*(?:#.*)?(?:\r\n|\r|\n))*")  # blank lines and comments ahead of a statement


class Located:
    """A parsed source; edits have to be of its `module`.

    No patch changes a definition whose text is in `whole`, but a patch may move it.
    """

    def __init__(self, source: str, whole: Collection[str] = (), facts: RunFacts | None = None) -> None:
        self.source, self.whole, self.facts = source, frozenset(whole), facts or RunFacts()
        self.module = cst.parse_module(source)
        wrapper = MetadataWrapper(self.module, unsafe_skip_copy=True)  # a parsed node occurs once
        self._positions = wrapper.resolve(WhitespaceInclusivePositionProvider)
        self._line_starts = [0, *(match.end() for match in _NEWLINE.finditer(source))]
        self._protected = [self._without_margins(self.span(node)) for node in _whole_nodes(self.module, self.whole)]

    def span(self, node: cst.CSTNode) -> Replacement:
        """Return the characters of the node, with the whitespace and the comments that belong to it."""
        place = self._positions[node]
        start = self._line_starts[place.start.line - 1] + place.start.column
        end = self._line_starts[place.end.line - 1] + place.end.column
        return Replacement(start, end, self.source[start:end])

    def _without_margins(self, span: Replacement) -> Replacement:
        above = _ABOVE.match(span.text)
        text = span.text[above.end() if above else 0 :].rstrip()
        start = span.end - len(span.text) + (above.end() if above else 0)
        return Replacement(start, start + len(text), text)

    def patch(self, edited: Edited | Patch) -> Patch | None:
        """Return the edit as a patch; None if it cannot be made, changes nothing, or can only break the script."""
        if isinstance(edited, Patch):
            return self.outside(edited)
        if isinstance(edited, Applied) and not all(starmap(self.facts.allow, edited.replacements.items())):
            return None
        spans = self._replaced(edited) if isinstance(edited, Applied) else None
        if spans is None:
            code = edited.code
            if code is None:
                return None
            spans = difference(self.source, code).spans
        patch = Patch(spans)
        if isinstance(edited, Applied):
            is_doubtful = any(starmap(self.facts.differ, edited.replacements.items()))
            patch = Patch(spans, tuple(edited.moved.items()), is_doubtful)
        outside = self.outside(patch)
        if outside != patch and self._moves_only(patched(self.source, patch)):
            return patch
        return outside

    def outside(self, patch: Patch) -> Patch | None:
        """Return the patch without its spans in definitions that stay whole; None if nothing is left."""
        spans = (span for span in patch.spans if not any(span.touches(p.start, p.end) for p in self._protected))
        outside = replace(patch, spans=tuple(spans))
        return outside if outside.spans else None

    def _replaced(self, edited: Applied) -> tuple[Replacement, ...] | None:
        """Return the spans of an edit that replaces expressions; None for other edits."""
        spans = []
        for old, new in edited.replacements.items():
            span = self.span(old)
            if self.module.code_for_node(old) != span.text:  # a statement: its lines are indented
                return None
            spans.append(Replacement(span.start, span.end, self.module.code_for_node(new)))
        spans.sort()
        is_nested = any(a.end > b.start for a, b in pairwise(spans))
        return None if is_nested else tuple(spans) or None

    def _moves_only(self, code: str) -> bool:
        """Return whether the code still has all definitions that stay whole."""
        try:
            module = cst.parse_module(code)
        except cst.ParserSyntaxError:
            return False
        before, after = (_texts(_whole_nodes(each, self.whole), each) for each in (self.module, module))
        return before <= after


def _whole_nodes(module: cst.Module, whole: Collection[str]) -> list[cst.CSTNode]:
    if not whole:
        return []
    nodes: list[cst.CSTNode] = []
    module.visit(_WholeNodes(module, whole, nodes))
    return nodes


class _WholeNodes(cst.CSTVisitor):
    def __init__(self, module: cst.Module, whole: Collection[str], found: list[cst.CSTNode]) -> None:
        self.module, self.whole, self.found = module, whole, found

    def on_visit(self, node: cst.CSTNode) -> bool:
        if is_whole(self.module, node, self.whole):
            self.found.append(node)
            return False
        return True


def _texts(nodes: Collection[cst.CSTNode], module: cst.Module) -> Counter[str]:
    return Counter(module.code_for_node(node).strip() for node in nodes)
