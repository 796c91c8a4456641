"""Inlines higher-order ops that the failure does not need."""

from __future__ import annotations

from minifier.case import Case, Level
from minifier.failure import Kind, Verdict
from minifier.passes.inline import calls, has_branches, holds_calls, inlined
from minifier.reduction.probe_runner import ProbeRunner

_MAX_SINGLE_TRIES = 8  # of wrappers inlined alone, if not all can be inlined


def without_wrappers(runner: ProbeRunner) -> None:
    """Replace checkpoints, `cond`s and other wrappers by their bodies, if the failure stays.
    The search can then remove single inner ops, and the repro is shorter."""
    case = runner.prepared.case
    names = calls(case.graph)
    if not names or case.level is not Level.DYNAMO or case.failure.fingerprint.kind is Kind.TIMEOUT:
        return
    for branch in (0, 1) if has_branches(case.graph) else (0,):
        if _fails_as(runner, inlined(case, names, branch)):
            return
    tried: set[str] = set()
    while len(tried) < _MAX_SINGLE_TRIES:
        case = runner.prepared.case
        name = next((name for name in calls(case.graph) if name not in tried), None)
        if name is None:
            break
        tried.add(name)
        if len(names) > 1 and _fails_as(runner, inlined(case, (name,))):
            continue
        if holds_calls(case.graph, name):  # an inner wrapper may be needed, and this outer one not
            _fails_as(runner, inlined(case, (name,), deep=False))


def _fails_as(runner: ProbeRunner, inlined_case: Case) -> bool:
    """Probe this Case, and adopt it if the failure shows."""
    before = runner.prepared.case
    runner.adopt(inlined_case)
    (judged,) = runner.probe([inlined_case])
    if judged.verdict is not Verdict.SAME:
        runner.adopt(before)
    return judged.verdict is Verdict.SAME
