"""Proves the ops of a simplified Case again: an edit of a pass may make an op removable."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import replace

from minifier import search
from minifier.case import Case, Recorded, TensorInput, TensorMeta
from minifier.case.ops import atoms, with_ops
from minifier.failure import Verdict
from minifier.probe.evaluate import run_eagerly
from minifier.reduction.op_search import OpSearchAdapter
from minifier.reduction.probe_runner import ProbeRunner

_PHASE = "again"


def proved_again(
    runner: ProbeRunner, case: Case, known: Callable[[Case], bool | None], budget: search.Budget
) -> tuple[Case, search.Ending]:
    """Delete each op of the Case alone; return the Case without the removable ops, and how the proof ended.

    `known` has the answers of the passes: some of their candidates had lost the same op.
    """
    while len(groups := atoms(case.graph, views_stay=False)) > 1:
        runner.phase, runner.part = _PHASE, ""
        suffix = _record(runner, case)
        build = functools.partial(_cut, case, suffix)
        adapter = OpSearchAdapter(runner, case.graph, build, groups=groups, known=known)
        left = budget.after(runner.total)
        result = search.reduce(adapter.problem(), adapter, known=adapter, budget=left, only_proof=True)
        if len(result.kept) < len(groups):
            case = adapter.candidate(result.kept)
        if not (result.one_minimal and adapter.unanswered.disproves(result.kept)):
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
