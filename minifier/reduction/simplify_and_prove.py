"""Simplifies a reduced Case and proves its ops again, until both change nothing."""

from __future__ import annotations

import contextlib
import functools
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import replace

from minifier import search
from minifier.data.case import Case, Recorded, TensorInput, TensorMeta
from minifier.data.case.ops import atoms, with_ops
from minifier.data.failure import Verdict
from minifier.data.settings import Settings
from minifier.reduction.op_search import OpSearchAdapter, reduce_bodies
from minifier.reduction.passes.table import DATA
from minifier.reduction.probe.evaluate import run_eagerly
from minifier.reduction.probe_runner import ProbeRunner
from minifier.reduction.simplify import Simplifier

_PHASE = "again"

STOPPED = {
    search.Ending.PROVED: "",
    search.Ending.MAX_PROBES: "the probe budget was used up",
    search.Ending.DEADLINE: "the time budget was used up",
    search.Ending.INTERRUPTED: "interrupted",
}


def simplified(
    runner: ProbeRunner,
    case: Case,
    reduced: Case,
    ended: search.Ending,
    budget: search.Budget,
    settings: Settings,
    seconds: float,
) -> tuple[Simplifier, search.Ending, str]:
    """Simplify the reduced Case and prove its ops again, until both change nothing.

    The whole reduction may take so many `seconds` of children. Return the last simplifier, how the last proof ended,
    and why this ended early, or "".
    """
    accepted: list[Case] = []
    while True:
        simplifier = Simplifier(runner, case, reduced, budget, settings.wants, seconds, accepted)
        stopped = _simplify(simplifier, STOPPED[ended])
        if stopped or runner.key_of(simplifier.case) == runner.key_of(reduced):
            return simplifier, ended, stopped
        reduced, ended = _proved_again(simplifier, budget)
        if reduced == simplifier.case:
            return simplifier, ended, STOPPED[ended]
        accepted = [*simplifier.accepted[:1], simplifier.case, reduced]


def _simplify(simplifier: Simplifier, stopped: str) -> str:
    """Simplify everything except the ops, unless their search was `stopped`; return why this ended early, or ""."""
    simplifier.runner.phase = "simplify"
    try:
        if not stopped:
            simplifier.run()
            while simplifier.has_become_flaky() or simplifier.has_left_dynamo():
                simplifier.run()
            stopped = simplifier.stopped
    except KeyboardInterrupt:
        stopped = stopped or "interrupted after the ops were proved, before all else was simplified"
    if not simplifier.finished:
        with contextlib.suppress(KeyboardInterrupt), simplifier.runner.going_on(DATA[0]):
            simplifier.without_data()
    return stopped


def _proved_again(simplifier: Simplifier, budget: search.Budget) -> tuple[Case, search.Ending]:
    """Prove the ops of the simplified Case; return the Case without the removable ops, and how this ended."""
    runner, case, ended = simplifier.runner, simplifier.case, search.Ending.INTERRUPTED
    with contextlib.suppress(KeyboardInterrupt):
        case, ended = proved_again(runner, case, simplifier.known, budget)
        if ended is search.Ending.PROVED and simplifier.wants("bodies"):
            case, ended = runner.after("bodies", reduce_bodies, (case, ended), runner, case, budget)
    return case, ended


def proved_again(
    runner: ProbeRunner, case: Case, known: Callable[[Case], bool | None], budget: search.Budget
) -> tuple[Case, search.Ending]:
    """Delete each op of the Case alone; return the Case without the removable ops, and how the proof ended.

    `known` has the answers of the passes: some of their candidates had lost the same op.
    """
    while len(groups := atoms(case.graph, views_stay=False)) > 1:
        runner.phase, runner.pass_name = _PHASE, ""
        suffix = _record(runner, case)
        build = functools.partial(_cut, case, suffix)
        adapter = OpSearchAdapter(runner, case.graph, build, groups=groups, known=known)
        left = budget.after(runner.total)
        result = search.reduce(adapter.problem(), adapter, known=adapter, budget=left, only_proof=True)
        smaller = adapter.unanswered.disproved(result.kept) if result.one_minimal else None
        if len(result.kept) < len(groups) or smaller is not None:
            case = adapter.candidate(result.kept if smaller is None else smaller)
        if smaller is None:
            return case, result.ended
    return case, search.Ending.PROVED


def _record(runner: ProbeRunner, case: Case) -> str:
    """Record the values of the Case's ops next to the captured graph's; return the suffix of their names."""
    prepared, suffix = runner.prepared, f"__{runner.key_of(case)}"
    if case.ignores_values or prepared.recorded is None:
        return ""
    wanted = [node.name for node in case.graph.ops if isinstance(node.value, TensorMeta)]
    folder = runner.scratch / suffix
    if folder.exists():  # the same Case is proved again, since a candidate has answered
        return suffix
    folder.mkdir()
    (result,) = runner.run([lambda: run_eagerly(prepared, case.graph, case.inputs, case.state, wanted, folder)])
    if result is None:
        runner.leave_open((_PHASE,), Counter([Verdict.UNRESOLVED]))
    else:
        prepared.recorded = prepared.recorded.plus(folder, suffix)
    return suffix


def _cut(case: Case, suffix: str, names: Collection[str]) -> Case:
    """Return the Case with only these ops; where it is cut, inputs have the values of this Case."""
    smaller = with_ops(case, names)
    captured = {item.name for item in case.inputs}
    inputs = tuple(
        replace(item, source=Recorded(item.source.node + suffix))
        if isinstance(item, TensorInput) and isinstance(item.source, Recorded) and item.name not in captured
        else item
        for item in smaller.inputs
    )
    return replace(smaller, inputs=inputs)
