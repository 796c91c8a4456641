"""The ops phase: the search core over atoms, with probes behind it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from minifier import search
from minifier.case import Case
from minifier.failure import Kind, Verdict
from minifier.passes.ops import atoms, kind, parents, with_ops
from minifier.probe.judge import Judged
from minifier.reduction.lab import Lab

_MORE_PATIENT = 10  # times the time limit, for a candidate that was given up and on which the proof rests
_LONGEST = 60.0  # seconds


@dataclass(frozen=True, slots=True)
class Limit:
    """When to stop early: probes in all, and the time on the monotonic clock."""

    max_probes: int | None = None
    deadline: float | None = None

    def after(self, probes: int) -> search.Budget:
        """What a search may take once so many probes have been made."""
        left = None if self.max_probes is None else max(0, self.max_probes - probes)
        return search.Budget(max_probes=left, deadline=self.deadline)


class _Atoms:
    """The search's view of the Case: atoms by number."""

    def __init__(self, lab: Lab, case: Case) -> None:
        self.lab, self.case = lab, case
        self.groups = atoms(case.graph)
        self.too_slow: set[frozenset[int]] = set()

    @property
    def workers(self) -> int:
        return self.lab.workers

    def candidate(self, chosen: frozenset[int]) -> Case:
        return with_ops(self.case, [name for i in sorted(chosen) for name in self.groups[i]])

    def probe(self, candidates: Sequence[frozenset[int]]) -> Sequence[bool]:
        judged = self.lab.probe([self.candidate(chosen) for chosen in candidates])
        self.too_slow |= {c for c, j in zip(candidates, judged, strict=True) if is_too_slow(j)}
        return [j.verdict is Verdict.SAME for j in judged]

    def problem(self) -> search.Problem:
        graph = self.case.graph
        owner = {name: i for i, group in enumerate(self.groups) for name in group}
        hints = [tuple(dict.fromkeys(owner[n] for n in group if n in owner)) for group in self.case.failure.hints]
        return search.Problem(
            parents=parents(graph, self.groups),
            kinds=tuple(kind(graph, group) for group in self.groups),
            hints=tuple(group for group in hints if group),
        )


def reduce_ops(lab: Lab, case: Case, limit: Limit, known: Mapping[str, bool]) -> tuple[Case, search.Result]:
    """The smallest Case, by ops, that still shows the failure; `known` has answers of an interrupted run.

    The whole graph is known to fail and the empty one not to: the check phase has seen that.
    """
    view = _Atoms(lab, case)
    everything = frozenset(range(len(view.groups)))
    owner = {lab.position[name]: i for i, group in enumerate(view.groups) for name in group}
    answers = {
        frozenset(owner[p] for p in positions): answer
        for text, answer in known.items()
        if owner.keys() >= set(positions := _positions(text))  # this Case may be a part of the captured one
    }

    def follow(progress: search.Progress) -> None:
        lab.phase = progress.phase.value

    lab.phase = "guess"
    result = search.reduce(
        view.problem(),
        view,
        known={**answers, everything: True, frozenset(): False},
        budget=limit.after(lab.total),
        on_progress=follow,
    )
    if result.one_minimal and _only_slow(view, result.kept):
        return reduce_ops(lab, view.candidate(result.kept), limit, {})
    return view.candidate(result.kept), result


def is_too_slow(judged: Judged) -> bool:
    """Whether a candidate was given up because it took too long, where that is not what is sought."""
    failure = judged.failure
    is_late = failure is not None and failure.fingerprint.kind is Kind.TIMEOUT
    return judged.verdict is Verdict.UNRESOLVED and is_late


def _only_slow(view: _Atoms, kept: frozenset[int]) -> bool:
    """Whether the proof rests on a candidate that was given up too early: with more time it fails as is sought. More
    time is what all get from then on."""
    lab, before = view.lab, view.lab.limits.seconds
    patient = min(_MORE_PATIENT * before, max(before, _LONGEST))
    for chosen in view.too_slow:
        if chosen < kept and len(kept - chosen) == 1 and patient > before:
            lab.allow(patient)
            if view.probe([chosen])[0]:
                return True
    lab.allow(before)
    return False


def _positions(text: str) -> list[int]:
    found: list[int] = []
    for part in filter(None, text.split(",")):
        low, _, high = part.partition("-")
        found += range(int(low), int(high or low) + 1)
    return found


def deadline_after(seconds: float | None, started: float) -> float | None:
    """The moment at which a budget in seconds ends that began at `started`."""
    return None if seconds is None else started + seconds
