"""Reduce a script: search over statements, inline modules, simplify statements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from minifier import search
from minifier.source.modules import with_modules
from minifier.source.probe import SourceLab
from minifier.source.statement_edits import plainer
from minifier.source.tree import Tree


@dataclass(frozen=True, slots=True)
class ReducedSource:
    """The reduced source. `minimal`: removing any one statement, with its body, makes the failure vanish."""

    source: str
    statements: int
    minimal: bool


class _StatementSearchAdapter:
    """Presents the numbered statements of a script to the search."""

    def __init__(self, lab: SourceLab, tree: Tree) -> None:
        self.lab, self.tree = lab, tree

    @property
    def workers(self) -> int:
        return self.lab.workers

    def probe(self, candidates: Sequence[frozenset[int]]) -> Sequence[bool]:
        return self.lab.holds([self.tree.code(numbers) for numbers in candidates])


def _problem(tree: Tree, lines: Sequence[int]) -> search.Problem:
    numbers = [tree.at_line(line) for line in lines]
    hint = tuple(dict.fromkeys(number for number in numbers if number is not None))
    return search.Problem(parents=tree.parents, kinds=tree.kinds, hints=(hint,) if hint else ())


def reduce_source(
    lab: SourceLab, source: str, lines: Sequence[int], budget: search.Budget, folders: Sequence[str] = ()
) -> ReducedSource:
    """Reduce a failing source. `lines` are the line numbers in its traceback.

    Definitions from modules in `folders` are inlined where the failure survives that.
    """
    source, ending = _statements(lab, source, lines, budget)
    while ending is search.Ending.PROVED:
        smaller, is_finished = _plainer(lab, source, budget, folders)
        if not is_finished:
            source, ending = smaller, search.Ending.INTERRUPTED
        elif smaller == source:
            break
        else:
            source, ending = _statements(lab, smaller, (), budget)
    return ReducedSource(source, len(Tree(source, lab.whole).statements), ending is search.Ending.PROVED)


def _plainer(lab: SourceLab, source: str, budget: search.Budget, folders: Sequence[str]) -> tuple[str, bool]:
    """Inline a module, or make the statements plainer; return (the source, False if there was no time for all)."""
    lab.phase = "modules"
    try:
        for inlined in with_modules(source, folders):
            if lab.holds([inlined])[0]:
                return inlined, True
    except KeyboardInterrupt:
        return source, False
    lab.phase = "plainer"
    return _simplified(lab, source, budget)


def _statements(lab: SourceLab, source: str, lines: Sequence[int], budget: search.Budget) -> tuple[str, search.Ending]:
    """Remove statements, and return (the source, how the search ended)."""
    lab.phase = "statements"
    tree = Tree(source, lab.whole)
    result = search.reduce(
        _problem(tree, lines), _StatementSearchAdapter(lab, tree), known={frozenset(): False}, budget=budget
    )
    return tree.code(result.kept), result.ended


class _BudgetSpent(Exception):
    """The budget is used up."""


def _simplified(lab: SourceLab, source: str, budget: search.Budget) -> tuple[str, bool]:
    """Apply all edits that keep the failure; return (the source, False if there was no time for all)."""
    module = cst.parse_module(source)
    try:
        for smaller in _edited(lab, module, budget):
            module = smaller
    except (KeyboardInterrupt, _BudgetSpent):  # what was reached stays
        return module.code, False
    return module.code, True


def _edited(lab: SourceLab, module: cst.Module, budget: search.Budget) -> Iterator[cst.Module]:
    """Yield the module after each edit that keeps the failure. Raises _BudgetSpent."""
    position = 0
    while True:
        whole = [text for text in lab.whole if text in module.code]
        for number, candidate in enumerate(plainer(module)):
            if number < position:
                continue
            if budget.is_spent(lab.total):
                raise _BudgetSpent
            code = candidate.code
            if all(text in code for text in whole) and lab.holds([code])[0]:
                module, position = cst.parse_module(code), number
                yield module
                break
        else:
            if position == 0:
                return
            position = 0  # restart: an edit that failed before may succeed now
