"""Whether the failure needs the higher-order ops of its graph, or only what they call."""

from __future__ import annotations

from minifier.case import Case, Level
from minifier.failure import Kind, Verdict
from minifier.passes.inline import calls, has_branches, holds_calls, inlined
from minifier.reduction.probe_runner import ProbeRunner

_ONE_BY_ONE = 8  # so many at most are tried alone, where they cannot all be done without


def without_wrappers(lab: ProbeRunner) -> None:
    """Replaces checkpoints, `cond`s and the like by what they call, where the failure survives that: then the search
    may take the ops inside one by one, and nobody has to read about the wrapper."""
    case = lab.bench.case
    names = calls(case.graph)
    if not names or case.level is not Level.DYNAMO or case.failure.fingerprint.kind is Kind.TIMEOUT:
        return
    for branch in (0, 1) if has_branches(case.graph) else (0,):
        if _fails_as(lab, inlined(case, names, branch)):
            return
    tried: set[str] = set()
    while len(tried) < _ONE_BY_ONE:
        case = lab.bench.case
        name = next((name for name in calls(case.graph) if name not in tried), None)
        if name is None:
            break
        tried.add(name)
        if len(names) > 1 and _fails_as(lab, inlined(case, (name,))):
            continue
        if holds_calls(case.graph, name):  # one of them may be needed, and this one around it not
            _fails_as(lab, inlined(case, (name,), deep=False))


def _fails_as(lab: ProbeRunner, plain: Case) -> bool:
    """Whether this Case has the failure; then it is the one to be reduced."""
    before = lab.bench.case
    lab.adopt(plain)
    (judged,) = lab.probe([plain])
    if judged.verdict is not Verdict.SAME:
        lab.adopt(before)
    return judged.verdict is Verdict.SAME
