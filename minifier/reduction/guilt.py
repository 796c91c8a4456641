"""Tests whether the ops that a reduction has kept make the results of the whole graph wrong."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from enum import Enum

from minifier import search
from minifier.case import Case
from minifier.case.graph import Node
from minifier.case.ops import atoms
from minifier.process.progress import counted
from minifier.reduction.guilty_ops import is_right
from minifier.reduction.op_search import reduce_ops
from minifier.reduction.probe_runner import Atom, ProbeRunner
from minifier.reduction.simplify_and_prove import proved_again

_MAX_NAMED = 3  # of the other guilty ops
_MAX_SEARCHES = 3  # after a search that ended at innocent ops


class Guilt(Enum):
    """Whether the reduced graph's ops make the whole graph's results wrong."""

    PROVED = "proved"
    SHARED = "shared"
    NONE = "none"
    DOUBTFUL = "doubtful"
    UNTESTED = "untested"


_SENTENCES = {
    Guilt.PROVED: "with eager's values in the places of what the reduced graph's ops compute, the failure of the whole "
    "graph is gone",
    Guilt.SHARED: "the whole graph fails at more than this: its failure is gone only with eager's "
    "values for {others} too",
    Guilt.NONE: "the reduced graph's ops are wrong, but the results of the whole graph do not depend on that, but on "
    "{others}",
    Guilt.DOUBTFUL: "with eager's values in the places of what the reduced graph's ops compute, the whole graph still "
    "fails, and the ops at fault are not known",
    Guilt.UNTESTED: "whether the reduced graph's ops make the results of the whole graph wrong could not be tested",
}


@dataclass(frozen=True, slots=True)
class Charge:
    """Whether the ops of a reduced graph are guilty. `others` names the other guilty ops, one for each atom."""

    guilt: Guilt
    others: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """The sentence for the user."""
        names = list(dict.fromkeys(self.others))
        more = [counted(len(names) - _MAX_NAMED, "more op")] if len(names) > _MAX_NAMED else []
        return _SENTENCES[self.guilt].format(others=" and ".join([*names[:_MAX_NAMED], *more]))


def _said(node: Node, reduced: Case) -> str:
    """Return the function and the place of an op that is not in the reduced graph: the repro has no name for it.

    A line of the script that runs several times has the same op in the reduced graph too.
    """
    said = f"{node.short_target} in {node.place}" if node.place else node.short_target
    is_kept = any((each.short_target, each.place) == (node.short_target, node.place) for each in reduced.graph.ops)
    return f"another call of {said}" if is_kept else said


def _last_op(case: Case, group: Atom) -> Node:
    """Return the atom's last op that does more than pick from a result."""
    nodes = [case.graph.node(name) for name in reversed(group)]
    return next((node for node in nodes if node.target != "operator.getitem"), nodes[0])


def charge(runner: ProbeRunner, case: Case, reduced: Case) -> Charge:
    """Test whether the ops of a reduced graph make the results of the whole graph wrong.

    Takes one run of the whole graph, unless the guilty ops are known, and all of them are left."""
    if case.measure.predicate:  # it judges the results of the whole graph, in their order
        return Charge(Guilt.UNTESTED)
    causes = runner.causes
    kept = {node.name for node in reduced.graph.ops}
    own = [group for group in atoms(case.graph) if not kept.isdisjoint(group)]
    others = tuple(_said(_last_op(case, group), reduced) for group in causes.guilty if group not in own)
    if causes.known and not others:
        return Charge(Guilt.PROVED)
    right = is_right(runner, case, own)
    if right:
        return Charge(Guilt.PROVED)
    if causes.known:
        return Charge(Guilt.NONE if set(own).isdisjoint(causes.guilty) else Guilt.SHARED, others)
    return Charge(Guilt.UNTESTED if right is None else Guilt.DOUBTFUL)


def at_guilty_ops(
    runner: ProbeRunner, case: Case, budget: search.Budget, reduced: Case, result: search.Result
) -> tuple[Case, search.Result, Charge]:
    """Charge the ops of a reduced graph. Search again without innocent ops, a few times."""
    charged = charge(runner, case, reduced)
    for _ in range(_MAX_SEARCHES):
        if charged.guilt is not Guilt.NONE:
            break
        runner.prepared.innocent |= _names(reduced)
        reduced, result = reduce_ops(runner, case, budget)
        charged = charge(runner, case, reduced)
    return _with_all_results(runner, case, budget, reduced, result, charged)


def _with_all_results(
    runner: ProbeRunner, case: Case, budget: search.Budget, reduced: Case, result: search.Result, charged: Charge
) -> tuple[Case, search.Result, Charge]:
    """Search the reduced graph again, with the results of innocent ops compared as well.

    `x + linear(x, 0)` seems minimal if `linear` is called innocent, although `linear` fails alone. The smaller graph is
    taken unless guilty ops would be lost.
    """
    innocent = runner.prepared.innocent
    if innocent.isdisjoint(_names(reduced)) or not result.one_minimal:
        return reduced, result, charged
    runner.prepared.innocent = innocent - _names(reduced)
    smaller, again = reduce_ops(runner, reduced, budget)
    if again.one_minimal and _names(smaller) == _names(reduced):
        return smaller, again, charged
    of_smaller = charge(runner, case, smaller)
    if again.one_minimal and (of_smaller.guilt is not Guilt.NONE or charged.guilt is Guilt.NONE):
        return smaller, again, of_smaller
    runner.prepared.innocent = innocent
    return reduced, result, charged


def _names(case: Case) -> frozenset[str]:
    return frozenset(node.name for node in case.graph.ops)


def fewer_with_all_results(
    runner: ProbeRunner, case: Case, budget: search.Budget
) -> tuple[tuple[str, ...], search.Ending]:
    """Prove the ops of the final Case with the results of innocent ops compared as well.

    Return the functions of the fewer ops that fail then too, if any, and how the proof ended. Takes no probe if all
    results were compared before.
    """
    innocent = runner.prepared.innocent
    if innocent.isdisjoint(_names(case)):
        return (), search.Ending.PROVED
    fewer, ended = case, search.Ending.INTERRUPTED
    runner.prepared.innocent = frozenset()
    with contextlib.suppress(KeyboardInterrupt):
        fewer, ended = proved_again(runner, case, lambda _: None, budget)
    runner.prepared.innocent = innocent
    is_fewer = _names(fewer) != _names(case)
    return tuple(node.short_target for node in fewer.graph.ops) if is_fewer else (), ended
