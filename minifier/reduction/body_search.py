"""The bodies of higher-order ops, each reduced as the graph itself is: by the search, to a proof."""

from __future__ import annotations

from minifier import search
from minifier.case import Case
from minifier.passes.bodies import Path, bodies, body_at, with_body, without_ops
from minifier.reduction.op_adapter import OpSearchAdapter
from minifier.reduction.op_search import Limit
from minifier.reduction.probe_runner import ProbeRunner


def reduce_bodies(lab: ProbeRunner, case: Case, limit: Limit) -> tuple[Case, search.Ending]:
    """The Case with no op left in a body that can be taken out alone; inner bodies first, and those that an outer one
    then no longer holds not at all."""
    lab.phase = "bodies"
    ended = search.Ending.PROVED
    done: set[Path] = set()
    while (path := next((p for p, body in bodies(case.graph) if p not in done and body.ops), None)) is not None:
        done.add(path)
        case, ended = _reduced(lab, case, path, limit)
        if ended is not search.Ending.PROVED:
            break
    return case, ended


def _reduced(lab: ProbeRunner, case: Case, path: Path, limit: Limit) -> tuple[Case, search.Ending]:
    body = body_at(case.graph, path)
    view = OpSearchAdapter(lab, body, lambda names: with_body(case, path, without_ops(body, frozenset(names))))
    result = search.reduce(view.problem(), view, budget=limit.after(lab.total))
    if result.one_minimal and view.rests_on_slow(result.kept):
        return _reduced(lab, view.candidate(result.kept), path, limit)
    return view.candidate(result.kept), result.ended
