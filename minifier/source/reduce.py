"""Reduce a script: search over statements, inline modules, simplify statements."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from minifier import search
from minifier.source.passes import PASSES, SourcePass, modules_pass
from minifier.source.probe import SourceLab
from minifier.source.put_value import Edited
from minifier.source.tree import Tree

_MAX_ROUNDS_WITH_MODULES = 50  # a module that imports itself within a function can be inlined without end


@dataclass(frozen=True, slots=True)
class ReducedSource:
    """The reduced source. `minimal`: removing any statement, with its body, makes the failure vanish."""

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
    known: set[str] = set()  # modules that import each other would be inlined in turn for ever
    while ending is search.Ending.PROVED:
        known.add(source)
        may_inline = folders if len(known) < _MAX_ROUNDS_WITH_MODULES else ()
        smaller, is_finished = _simplified(lab, source, budget, may_inline)
        if not is_finished:
            source, ending = smaller, search.Ending.INTERRUPTED
        elif smaller in known:
            break
        else:
            source, ending = _statements(lab, smaller, (), budget)
            if source in known:
                break
    return ReducedSource(source, len(Tree(source, lab.whole).statements), ending is search.Ending.PROVED)


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


def _simplified(lab: SourceLab, source: str, budget: search.Budget, folders: Sequence[str]) -> tuple[str, bool]:
    """Inline one module, or apply all edits that keep the failure.

    Return (the source, False if there was no time for all).
    """
    module = cst.parse_module(source)
    try:
        for inlined in _edited(lab, module, budget, [modules_pass(folders)]):
            return inlined.code, True  # its statements are searched first
        for smaller in _edited(lab, module, budget, PASSES):
            module = smaller
    except (KeyboardInterrupt, _BudgetSpent):  # the edits so far stay
        return module.code, False
    return module.code, True


def _edited(
    lab: SourceLab, module: cst.Module, budget: search.Budget, passes: Sequence[SourcePass]
) -> Iterator[cst.Module]:
    """Yield the module after each edit that keeps the failure, until no edit of any pass does. Raises _BudgetSpent."""
    before = ""
    while module.code != before:
        before = module.code
        for each in passes:
            lab.phase, position = each.name, 0
            while (found := _next_edit(lab, module, budget, each, position)) is not None:
                position, module = found
                yield module


def _next_edit(
    lab: SourceLab, module: cst.Module, budget: search.Budget, source_pass: SourcePass, position: int
) -> tuple[int, cst.Module] | None:
    """Return the first edit from this position on that keeps the failure: its position, and the module after it."""
    before = module.code
    whole = [text for text in lab.whole if text in before]
    for number, edited in enumerate(_edits(source_pass, module)):
        code = _code(edited) if number >= position else None
        if code is None or code == before:
            continue
        if budget.ending(lab.total) is not None:
            raise _BudgetSpent
        if all(text in code for text in whole) and lab.holds([code])[0]:
            return number, cst.parse_module(code)
    return None


def _edits(source_pass: SourcePass, module: cst.Module) -> Iterator[Edited]:
    """Yield the edits of the pass, up to one that cannot be made."""
    edits = source_pass.edits(module)
    while True:
        try:
            yield next(edits)
        except StopIteration:
            return
        except Exception:  # noqa: BLE001 - libcst raises errors of many types; the source so far stays
            return


def _code(edited: Edited) -> str | None:
    try:
        return edited.code
    except Exception:  # noqa: BLE001 - as above
        return None
