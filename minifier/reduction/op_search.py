"""The ops phase: the search core over atoms, with probes behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from minifier import search
from minifier.case import Case
from minifier.case.ops import with_ops
from minifier.reduction.op_adapter import OpSearchAdapter
from minifier.reduction.probe_runner import ProbeRunner


@dataclass(frozen=True, slots=True)
class Limit:
    """When to stop early: probes in all, and the time on the monotonic clock."""

    max_probes: int | None = None
    deadline: float | None = None

    def after(self, probes: int) -> search.Budget:
        """What a search may take once so many probes have been made."""
        left = None if self.max_probes is None else max(0, self.max_probes - probes)
        return search.Budget(max_probes=left, deadline=self.deadline)


def reduce_ops(lab: ProbeRunner, case: Case, limit: Limit, known: Mapping[str, bool]) -> tuple[Case, search.Result]:
    """The smallest Case, by ops, that still shows the failure; `known` has answers of an interrupted run.

    The whole graph is known to fail and the empty one not to: the check phase has seen that.
    """
    view = OpSearchAdapter(lab, case.graph, lambda names: with_ops(case, names), case.failure.hints)
    everything = frozenset(range(len(view.groups)))
    owner = {lab.position[name]: i for name, i in view.owner.items()}
    answers = {
        frozenset(owner[p] for p in positions): answer
        for text, answer in known.items()
        if owner.keys() >= set(positions := _positions(text))  # this Case may be a part of the captured one
    }

    def follow(progress: search.SearchProgress) -> None:
        lab.phase = progress.phase.value

    lab.phase = "guess"
    result = search.reduce(
        view.problem(),
        view,
        known={**answers, everything: True, frozenset(): False},
        budget=limit.after(lab.total),
        on_progress=follow,
    )
    if result.one_minimal and view.rests_on_slow(result.kept):
        return reduce_ops(lab, view.candidate(result.kept), limit, {})
    return view.candidate(result.kept), result


def _positions(text: str) -> list[int]:
    found: list[int] = []
    for part in filter(None, text.split(",")):
        low, _, high = part.partition("-")
        found += range(int(low), int(high or low) + 1)
    return found


def deadline_after(seconds: float | None, started: float) -> float | None:
    """The moment at which a budget in seconds ends that began at `started`."""
    return None if seconds is None else started + seconds
