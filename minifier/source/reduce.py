"""The search over statements, and what is made plainer after it."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst

from minifier import search
from minifier.source.modules import with_modules
from minifier.source.probe import SourceLab
from minifier.source.statement_edits import plainer
from minifier.source.tree import Tree


@dataclass(frozen=True, slots=True)
class ReducedSource:
    """The smallest source found. `minimal` says that every statement of it was taken out alone, with what stands in
    it, and the failure seen to be gone."""

    source: str
    statements: int
    minimal: bool


class _StatementSearchAdapter:
    """The search's view of a script: its statements by number."""

    def __init__(self, lab: SourceLab, tree: Tree) -> None:
        self.lab, self.tree = lab, tree

    @property
    def workers(self) -> int:
        return self.lab.workers

    def probe(self, candidates: Sequence[frozenset[int]]) -> Sequence[bool]:
        return self.lab.holds([self.tree.code(chosen) for chosen in candidates])


def _problem(tree: Tree, lines: Sequence[int]) -> search.Problem:
    named = [tree.at_line(line) for line in lines]
    hint = tuple(dict.fromkeys(number for number in named if number is not None))
    return search.Problem(parents=tree.parents, kinds=tree.kinds, hints=(hint,) if hint else ())


def reduce_source(
    lab: SourceLab, source: str, lines: Sequence[int], budget: search.Budget, folders: Sequence[str] = ()
) -> ReducedSource:
    """Reduces the source, which is known to fail; `lines` are those that its traceback goes through. What it takes from
    modules in `folders` is put into it where the failure survives that."""
    lab.phase = "statements"
    source, ended = _statements(lab, source, lines, budget)
    while ended is search.Ending.PROVED:
        lab.phase = "modules"
        alone = next((each for each in with_modules(source, folders) if lab.holds([each])[0]), None)
        if alone is not None:
            lab.phase = "statements"
            source, ended = _statements(lab, alone, (), budget)
            continue
        lab.phase = "plainer"
        plain = _plainest(lab, source)
        if plain == source:
            break
        lab.phase = "statements"
        source, ended = _statements(lab, plain, (), budget)
    return ReducedSource(source, len(Tree(source, lab.whole).statements), ended is search.Ending.PROVED)


def _statements(lab: SourceLab, source: str, lines: Sequence[int], budget: search.Budget) -> tuple[str, search.Ending]:
    tree = Tree(source, lab.whole)
    result = search.reduce(
        _problem(tree, lines), _StatementSearchAdapter(lab, tree), known={frozenset(): False}, budget=budget
    )
    return tree.code(result.kept), result.ended


def _plainest(lab: SourceLab, source: str) -> str:
    """The source after every edit that keeps the failure."""
    position = 0
    module = cst.parse_module(source)
    while True:
        whole = [text for text in lab.whole if text in module.code]
        for number, candidate in enumerate(plainer(module)):
            if number < position or not _is_python(made := candidate.code):
                continue
            if any(text not in made for text in whole):
                continue
            if lab.holds([made])[0]:
                module, position = cst.parse_module(made), number
                break
        else:
            if position == 0:
                return module.code
            position = 0  # once more from the start: what did not go before may go now


def _is_python(source: str) -> bool:
    try:
        ast.parse(source)
    except (SyntaxError, ValueError):
        return False
    return True
