"""The bodies of higher-order ops, each reduced as the graph itself is: by the search, to a proof."""

from __future__ import annotations

from minifier import search
from minifier.case import Case
from minifier.passes.bodies import Path, bodies, body_at, with_body, without_ops
from minifier.reduction.lab import Lab
from minifier.reduction.ops import Limit
from minifier.reduction.view import View


def reduce_bodies(lab: Lab, case: Case, limit: Limit) -> tuple[Case, search.Ended]:
    """The Case with no op left in a body that can be taken out alone; inner bodies first, and those that an outer one
    then no longer holds not at all."""
    lab.phase = "bodies"
    ended = search.Ended.PROVED
    done: set[Path] = set()
    while (path := next((p for p, body in bodies(case.graph) if p not in done and body.ops), None)) is not None:
        done.add(path)
        case, ended = _reduced(lab, case, path, limit)
        if ended is not search.Ended.PROVED:
            break
    return case, ended


def _reduced(lab: Lab, case: Case, path: Path, limit: Limit) -> tuple[Case, search.Ended]:
    body = body_at(case.graph, path)
    view = View(lab, body, lambda names: with_body(case, path, without_ops(body, frozenset(names))))
    result = search.reduce(view.problem(), view, budget=limit.after(lab.total))
    if result.one_minimal and view.rests_on_slow(result.kept):
        return _reduced(lab, view.candidate(result.kept), path, limit)
    return view.candidate(result.kept), result.ended
