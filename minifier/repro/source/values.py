"""Edits that put plain values in the place of computed ones, and make numbers small."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import libcst as cst
from libcst import matchers as m

from minifier.repro.source.patches import Edited, Located, Patch, Replacement, replaced
from minifier.repro.source.run_facts import Tensor
from minifier.repro.source.statement_edits import (
    Nodes,
    imported_names,
    targets_in,
)

_FIRST_TRIED = (1, 2, 3)  # of integers; then their range is halved
_SIMPLE_FLOATS = (1.0, 0.5)


@dataclass
class _Site:
    """Literals of one number that change together, by their positions among all literals of the script.

    `refused` is the largest integer that was refused. The next smaller integer is tried ahead of the bisection, which
    most numbers of a second walk do not need. `floats` are the texts of a float that are still to be tried.
    `is_single`: one of several occurrences, where only the simplest number is tried.
    """

    places: tuple[int, ...]
    is_single: bool = False
    refused: int = 0
    has_tried_next: bool = False
    floats: list[str] = field(default_factory=list)
    proposed: str = ""

    def propose(self, text: str) -> str:
        """Return the next text to try in place of this one; "" if there is none."""
        self._judge(text)
        value = _integer(text)
        if self.is_single and self.proposed:
            self.proposed = ""
        elif value is None:
            self.proposed = self.floats.pop(0) if self.floats else ""
        else:
            target = next((n for n in _FIRST_TRIED if n > self.refused), 0)
            if not target:
                target = (self.refused + value) // 2 if self.has_tried_next else value - 1
                self.has_tried_next = True
            self.proposed = str(target) if self.refused < target < value else ""
        return self.proposed

    def _judge(self, text: str) -> None:
        """Note whether the last proposal is the text by now."""
        if text == self.proposed:
            self.floats = []  # of which simpler ones were refused
        elif self.proposed and _integer(text) is not None:
            self.refused = int(self.proposed)


class SmallNumbers:
    """Lists the next edit of each number, for each of the sources that its edits lead to: a binary search."""

    def __init__(self) -> None:
        self._sites: list[_Site] = []
        self._stage = 0  # of: all occurrences of a number, single ones

    def edits(self, located: Located) -> Iterator[Patch]:
        """Yield the next edit of each number."""
        literals = _literals(located)
        edits = list(self._next(literals))
        while not edits and self._stage < 2:
            self._stage += 1
            self._sites = _equal(literals) if self._stage == 1 else _single(self._sites, literals)
            edits = list(self._next(literals))
        yield from edits

    def _next(self, literals: Sequence[Replacement]) -> Iterator[Patch]:
        for site in self._sites:
            text = literals[site.places[0]].text
            if new := site.propose(text):
                spans = (literals[place] for place in site.places)
                yield Patch(tuple(Replacement(span.start, span.end, new) for span in spans))


def _literals(located: Located) -> list[Replacement]:
    """Return the number literals of the script, without parentheses around them."""
    spans = []
    for node in m.findall(located.module, m.Integer() | m.Float()):
        assert isinstance(node, (cst.Integer, cst.Float)), "as matched"
        span = located.span(node)
        start = span.start + span.text.index(node.value)
        spans.append(Replacement(start, start + len(node.value), node.value))
    return sorted(spans)


def _integer(text: str) -> int | None:
    try:
        return int(text, 0)
    except ValueError:
        return None


def _equal(literals: Sequence[Replacement]) -> list[_Site]:
    """Return a site for each number that occurs."""
    places = defaultdict[str, list[int]](list)
    for place, span in enumerate(literals):
        places[span.text].append(place)
    return [_Site(tuple(numbers), floats=_simple_floats(text)) for text, numbers in places.items()]


def _single(sites: Sequence[_Site], literals: Sequence[Replacement]) -> list[_Site]:
    """Return a site for each occurrence of the numbers that occur more than once: 1 is tried there."""
    return [
        _Site((place,), is_single=True, floats=_simple_floats(literals[place].text))
        for site in sites
        if len(site.places) > 1
        for place in site.places
    ]


def _simple_floats(text: str) -> list[str]:
    """Return simpler floats, the simplest first; none for an integer, or a number that is simple itself."""
    if _integer(text) is not None or float(text) in (0.0, _SIMPLE_FLOATS[0]):
        return []
    value = float(text)
    simpler = [number for number in (*_SIMPLE_FLOATS, float(f"{value:.1g}")) if number != value]
    short = [repr(number) for number in simpler if len(repr(number)) <= len(text)]
    return list(dict.fromkeys(short[: _SIMPLE_FLOATS.index(value)] if value in _SIMPLE_FLOATS else short))


_SCALARS = {"float32": "1.0", "int64": "1", "bool": "True"}  # written as tensors of these dtypes
_COMPUTED = cst.Attribute, cst.BinaryOperation, cst.Call, cst.Comparison, cst.Subscript, cst.UnaryOperation


def plain_values(located: Located) -> Iterator[Edited]:
    """A value that is computed from variables becomes a plain one, outer expressions first.

    A number that is always the same becomes this number, a tensor `torch.ones` of the shape that it had. Where the
    script computes gradients, only tensors that none flow through: a new tensor would have no gradient.
    """
    has_gradients = "grad(" in located.source or "backward(" in located.source
    module, facts, imported = located.module, located.facts, imported_names(located.module)
    for node in _values(module):
        if literal := facts.number(node):
            yield from replaced(module, node, cst.parse_expression(literal))
            continue
        tensor = facts.tensor(node) if isinstance(node, _COMPUTED) and "torch" in imported else None
        if tensor is not None and not (tensor.has_history and has_gradients) and not _names(node) <= imported:
            yield from replaced(module, node, _ones(tensor))


def _values(module: cst.Module) -> Iterator[cst.BaseExpression]:
    """Yield the computed values, and the variables that are an argument or assigned, outer ones first."""
    bound, visitor = targets_in(module), Nodes(module)
    for node in visitor.nodes:
        if isinstance(node, (cst.Arg, cst.Assign)) and isinstance(node.value, cst.Name):
            yield node.value
        elif isinstance(node, _COMPUTED) and node not in bound and getattr(node, "func", None) not in visitor.compiling:
            yield node


def _names(node: cst.CSTNode) -> set[str]:
    """Return the names of variables in an expression."""
    tree = ast.parse(cst.Module([]).code_for_node(node).strip(), mode="eval")
    return {each.id for each in ast.walk(tree) if isinstance(each, ast.Name)}


def _ones(tensor: Tensor) -> cst.BaseExpression:
    if not tensor.shape and tensor.dtype in _SCALARS:
        return cst.parse_expression(f"torch.tensor({_SCALARS[tensor.dtype]})")
    sizes = ", ".join(map(str, tensor.shape)) or "()"
    dtype = "" if tensor.dtype == "float32" else f", dtype=torch.{tensor.dtype}"
    return cst.parse_expression(f"torch.ones({sizes}{dtype})")
