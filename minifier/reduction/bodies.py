"""The bodies of higher-order ops, each reduced as the graph itself is: by the search, to a proof."""

from __future__ import annotations

from collections.abc import Sequence

from minifier import search
from minifier.case import Case
from minifier.failure import Verdict
from minifier.passes.bodies import Path, bodies, body_at, with_body, without_ops
from minifier.passes.ops import atoms, kind, parents
from minifier.reduction.lab import Lab
from minifier.reduction.ops import Limit


class _Body:
    """The search's view of one body: its atoms by number."""

    def __init__(self, lab: Lab, case: Case, path: Path) -> None:
        self.lab, self.case, self.path = lab, case, path
        self.graph = body_at(case.graph, path)
        self.groups = atoms(self.graph)

    @property
    def workers(self) -> int:
        return self.lab.workers

    def candidate(self, chosen: frozenset[int]) -> Case:
        kept = {name for i in chosen for name in self.groups[i]}
        return with_body(self.case, self.path, without_ops(self.graph, kept))

    def probe(self, candidates: Sequence[frozenset[int]]) -> Sequence[bool]:
        judged = self.lab.probe([self.candidate(chosen) for chosen in candidates])
        return [each.verdict is Verdict.SAME for each in judged]

    def problem(self) -> search.Problem:
        return search.Problem(
            parents=parents(self.graph, self.groups), kinds=tuple(kind(self.graph, group) for group in self.groups)
        )


def reduce_bodies(lab: Lab, case: Case, limit: Limit) -> tuple[Case, search.Ended]:
    """The Case with no op left in a body that can be taken out alone; inner bodies first, and those that an outer one
    then no longer holds not at all."""
    lab.phase = "bodies"
    ended = search.Ended.PROVED
    done: set[Path] = set()
    while (path := next((p for p, body in bodies(case.graph) if p not in done and body.ops), None)) is not None:
        done.add(path)
        view = _Body(lab, case, path)
        result = search.reduce(view.problem(), view, budget=limit.after(lab.total))
        case = view.candidate(result.kept)
        if result.ended is not search.Ended.PROVED:
            ended = result.ended
            break
    return case, ended
