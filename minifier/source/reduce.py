"""Reduce a script: search over statements, inline modules, simplify statements."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from minifier import search
from minifier.source.edit_search import EditSearch, Lab, PassRow, Stopped, readable_and_held
from minifier.source.likely_statements import likely_statements
from minifier.source.located import Located
from minifier.source.passes import (
    ALIKE,
    COARSE_PASSES,
    FINE_PASSES,
    LAST_PASSES,
    MODULES,
    STATEMENTS,
    Lister,
    SourcePass,
    modules_pass,
)
from minifier.source.patches import Patch, alike, difference
from minifier.source.put_value import is_of_libcst
from minifier.source.tree import Tree

_MAX_ROUNDS_WITH_MODULES = 50  # a module that imports itself within a function can be inlined without end


@dataclass(frozen=True, slots=True)
class ReducedSource:
    """The reduced source. `minimal`: removing any statement, with its body, makes the failure vanish."""

    source: str
    statements: int
    minimal: bool


def reduce_source(
    lab: Lab,
    source: str,
    lines: Sequence[int],
    budget: search.Budget,
    folders: Sequence[str] = (),
    wants: Callable[[str], bool] = lambda name: True,
) -> ReducedSource:
    """Reduce a failing source. `lines` are the line numbers in its traceback.

    Definitions from modules in `folders` are inlined where the failure survives that. Besides the removal of
    statements, only the passes are tried whose name `wants` accepts.
    """
    edits = EditSearch(lab, source, budget)
    try:
        _search_statements(edits, lines)
        _simplify(edits, folders, wants)
        minimal = True
    except (KeyboardInterrupt, Stopped):  # what was reached stays
        minimal = False
    return ReducedSource(edits.source, len(Tree(edits.source, lab.whole).statements), minimal)


def _search_statements(edits: EditSearch, lines: Sequence[int]) -> None:
    """Remove at once all statements that the traced ones seem not to need, then groups, the last first.

    Raises Stopped.
    """
    edits.lab.phase = STATEMENTS[0]
    edits.check_budget()
    tree = Tree(edits.source, edits.lab.whole)
    traced = [number for line in lines if (number := tree.at_line(line)) is not None]
    chosen = likely_statements(tree, traced) if traced else frozenset()
    is_likely = bool(chosen) and readable_and_held(edits.lab, [tree.code(chosen)])[0]
    if not is_likely:
        chosen = frozenset(range(len(tree.statements)))
    order = sorted(chosen, reverse=True)
    first = 1 if is_likely else max(1, len(order) // 2)  # most of the likely ones are needed
    left, ended = edits.gallop(len(order), lambda made: tree.code(chosen - {order[number] for number in made}), first)
    kept = frozenset(order[number] for number in left)
    edits.apply(difference(edits.source, tree.code(kept)))
    if ended:
        raise Stopped
    for number, verdict in left.items():
        edits.refuse(_REMOVALS, difference(edits.source, tree.code(kept - {order[number]})), verdict)


def _simplify(edits: EditSearch, folders: Sequence[str], wants: Callable[[str], bool]) -> None:
    """Make edits until none keeps the failure, and no statement can be removed. Raises Stopped."""
    coarse, fine, last = (
        [each for each in passes if wants(each.name)] for passes in (COARSE_PASSES, FINE_PASSES, LAST_PASSES)
    )
    for _ in range(_MAX_ROUNDS_WITH_MODULES if wants(MODULES[0]) else 0):
        before = edits.source
        row = _row(modules_pass(folders), edits.lab)
        while edits.step(row) and edits.source == before:
            pass
        if edits.source == before:
            break
        _search_statements(edits, ())
    rows = [_REMOVALS, *(_row(each, edits.lab) for each in coarse)]
    while True:
        before = edits.source
        _to_fixpoint(edits, rows)
        if wants(ALIKE[0]):
            edits.run(_alike(rows))
        for each in fine:
            edits.run(_row(each, edits.lab))
        if edits.source == before and not edits.reopen() and _is_minimal(edits):
            break
    for each in last:
        edits.run(_row(each, edits.lab))


def _to_fixpoint(edits: EditSearch, rows: Sequence[PassRow]) -> None:
    before = ""
    while edits.source != before:
        before = edits.source
        for row in rows:
            edits.run(row)


def _is_minimal(edits: EditSearch) -> bool:
    """Return whether no statement can be removed alone; else remove those that can be. Raises Stopped."""
    before = edits.source
    edits.lab.phase = STATEMENTS[0]
    tree = Tree(edits.source, edits.lab.whole)
    numbers = frozenset(range(len(tree.statements)))
    for number in sorted(numbers, reverse=True):
        edits.check_budget()
        code = tree.code(numbers - {number})  # equal if the block had nothing else: it gets its `pass` again
        if code != edits.source and readable_and_held(edits.lab, [code])[0]:
            edits.apply(difference(edits.source, code))
            numbers -= {number}
    return edits.source == before


def _removals(located: Located) -> Iterator[Patch]:
    """Yield the removal of each statement, the last first."""
    tree = Tree(located.source, located.whole)
    numbers = frozenset(range(len(tree.statements)))
    read = {binder for reader, binders in tree.reads for binder in binders if binder != reader}
    for number in sorted(numbers, reverse=True):
        removal = difference(located.source, tree.code(numbers - {number}))
        yield replace(removal, is_idle=number not in read)


_REMOVALS = PassRow(STATEMENTS[0], _removals, is_doubtful=True)


def _alike(rows: Sequence[PassRow]) -> PassRow:
    """Return the row that makes edits of these rows together that take away the same.

    A script that compares with eager mode computes twice, and each edit of one computation breaks it."""

    def patches(located: Located) -> Iterator[Patch]:
        for row in rows:
            yield from alike(located.source, filter(None, row.patches(located)))

    return PassRow(ALIKE[0], patches, any(row.reads_values for row in rows), is_doubtful=True)


def _row(source_pass: SourcePass, lab: Lab) -> PassRow:
    lister = source_pass.begin()
    return PassRow(
        source_pass.name,
        lambda located: _patches(source_pass.name, lister, located, lab),
        source_pass.reads_values,
        is_adaptive=source_pass.is_adaptive,
    )


def _patches(name: str, lister: Lister, located: Located, lab: Lab) -> Iterator[Patch | None]:
    """Yield the listed edits as patches. An error of the lister ends the list, an error of an edit leaves out the edit;
    `lab` is warned of both, unless libcst refuses the edit."""
    try:
        for edited in lister(located):
            try:
                patch = located.patch(edited)
            except Exception as error:  # noqa: BLE001 - the other edits stay
                if not is_of_libcst(error):
                    lab.warn(f"the pass {name} failed on an edit, which was skipped", error)
                continue
            yield patch
    except Exception as error:  # noqa: BLE001 - the source so far stays
        lab.warn(f"the pass {name} could not list all its edits", error)
