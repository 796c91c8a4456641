"""Finds the op that makes the results of the whole graph wrong."""

from __future__ import annotations

import itertools
from dataclasses import replace
from enum import Enum

from minifier import search
from minifier.data.case import Case
from minifier.data.case.ops import atoms
from minifier.data.failure import Stage, Verdict
from minifier.reduction.op_search import calls_of, parts_of, reduce_ops
from minifier.reduction.probe_runner import Atom, ProbeRunner


class Guilt(Enum):
    """Whether the op that makes the whole graph's results wrong is in the reduced graph."""

    PROVED = "proved"
    REPEATED = "repeated"
    NONE = "none"


_SENTENCES = {
    Guilt.PROVED: "with eager's values up to {op}, the failure of the whole graph is gone",
    Guilt.REPEATED: "with eager's values up to another call, of {op}, the failure of the whole graph is gone",
    Guilt.NONE: "the reduced graph's ops are wrong too, but the whole graph's results are wrong because of {op}",
}


def _functions(case: Case, group: Atom) -> list[str]:
    return [case.graph.node(name).target for name in group]


def guilty_op(runner: ProbeRunner, case: Case, budget: search.Budget, reduced: Case) -> Atom:
    """Return the last atom that makes the whole graph's results wrong; () if that is not known.

    With eager's values for all before it the failure shows, and with eager's values for it as well no more, even if
    results differ in other ways. Found by bisection. The last atom like the first one of the reduced graph is tried
    first, which takes two probes.
    """
    groups, calls, build = atoms(case.graph), calls_of(case), parts_of(case)
    own = next(group for group in groups if reduced.graph.ops[0].name in group)
    likely = max(at for at, group in enumerate(groups) if _functions(case, group) == _functions(case, own))
    wrong, right, is_gone = 0, len(groups), True  # the results from these atoms on; what is known of the second
    while right - wrong > 1:
        if budget.ending(runner.total):
            return ()
        at = next((each for each in (likely + 1, likely) if wrong < each < right), (wrong + right) // 2)
        (judged,) = runner.probe([build([*calls, *itertools.chain.from_iterable(groups[at:])])])
        if judged.verdict is Verdict.SAME:
            wrong = at
        else:
            is_wrong = judged.failure is not None and judged.failure.fingerprint.stage is Stage.COMPARE
            right, is_gone = at, judged.verdict is Verdict.PASS or is_wrong
    return groups[wrong] if is_gone else ()


def at_guilty_op(
    runner: ProbeRunner, case: Case, budget: search.Budget, reduced: Case, result: search.Result
) -> tuple[Case, search.Result, Atom]:
    """Find the guilty op of a wrong result. If the reduced graph is of other ops, search again from that op on."""
    if not result.one_minimal:
        return reduced, result, ()
    runner.phase = "guilty"
    guilty = guilty_op(runner, case, budget, reduced)
    if not guilty or guilt_of(case, guilty, reduced) is not Guilt.NONE:
        return reduced, result, guilty
    groups = atoms(case.graph)
    hinted = replace(case, failure=replace(case.failure, hints=(guilty,)))
    again, its_result = reduce_ops(runner, hinted, budget, groups=groups[groups.index(guilty) :])
    is_better = its_result.one_minimal and guilt_of(case, guilty, again) is not Guilt.NONE
    return (replace(again, failure=case.failure), its_result, guilty) if is_better else (reduced, result, guilty)


def guilt_of(case: Case, guilty: Atom, reduced: Case) -> Guilt:
    """Return whether the reduced graph has the guilty op, or the same op of another place."""
    kept = {node.name for node in reduced.graph.ops}
    if not kept.isdisjoint(guilty):
        return Guilt.PROVED
    alike = (group for group in atoms(case.graph) if _functions(case, group) == _functions(case, guilty))
    return Guilt.NONE if all(map(kept.isdisjoint, alike)) else Guilt.REPEATED


def said_of_guilt(case: Case, guilty: Atom, reduced: Case) -> str:
    """Return the sentence for the user. It names the op by function and place: the repro may have no name for it."""
    nodes = [case.graph.node(name) for name in guilty]
    node = next((each for each in reversed(nodes) if each.target != "operator.getitem"), nodes[0])
    op = f"{node.short_target} in {node.place}" if node.place else node.short_target
    return _SENTENCES[guilt_of(case, guilty, reduced)].format(op=op)
