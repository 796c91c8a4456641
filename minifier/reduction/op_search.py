"""Reduces ops: connects the search over atoms to probes, for a graph and for the bodies of higher-order ops."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from minifier import search
from minifier.case import Case, Graph
from minifier.case.ops import atoms, kind, parents, with_ops
from minifier.failure import Kind, Verdict
from minifier.passes.bodies import Path, bodies, body_at, with_body, without_ops
from minifier.probe.verdicts import Judged
from minifier.reduction.probe_runner import ProbeRunner

_MORE_ASKS = 2  # of a candidate without an answer, if the proof rests on it
_LONGER_TIMEOUT_FACTOR = 10  # for such a candidate that timed out; it is asked once
_MAX_LONGER_TIMEOUT_SECONDS = 60.0


class OpSearchAdapter:
    """Presents a graph to the search as numbered atoms, and probes candidates.
    `build` makes the Case that has only the given ops of the graph. `hints` are groups of op names."""

    def __init__(
        self,
        runner: ProbeRunner,
        graph: Graph,
        build: Callable[[Collection[str]], Case],
        hints: Sequence[Sequence[str]] = (),
    ) -> None:
        self.runner, self.graph, self.build, self.hints = runner, graph, build, hints
        self.groups = atoms(graph)
        self.owner = {name: i for i, group in enumerate(self.groups) for name in group}
        self._unresolved: dict[frozenset[int], bool] = {}  # candidates without an answer; whether they were too slow

    @property
    def workers(self) -> int:
        """How many candidates to probe at once."""
        return self.runner.workers

    def candidate(self, chosen: frozenset[int]) -> Case:
        """Build the Case with these atoms."""
        return self.build([name for i in sorted(chosen) for name in self.groups[i]])

    def probe(self, candidates: Sequence[frozenset[int]]) -> Sequence[bool]:
        """Return for each set of atoms whether the failure shows."""
        judged = self.runner.probe([self.candidate(chosen) for chosen in candidates])
        for chosen, each in zip(candidates, judged, strict=True):
            if each.verdict is Verdict.UNRESOLVED:
                self._unresolved[chosen] = is_too_slow(each)
        return [each.verdict is Verdict.SAME for each in judged]

    def problem(self) -> search.Problem:
        """Build the input of the search."""
        hints = [tuple(dict.fromkeys(self.owner[n] for n in hint if n in self.owner)) for hint in self.hints]
        return search.Problem(
            parents=parents(self.graph, self.groups),
            kinds=tuple(kind(self.graph, group) for group in self.groups),
            hints=tuple(hint for hint in hints if hint),
        )

    def disproves(self, kept: frozenset[int], place: Path = ()) -> bool:
        """Ask again for the candidates without an answer that the proof of `kept` rests on; whether one of them fails.

        A candidate that timed out is probed again with a longer timeout, which stays if the failure shows. Candidates
        that give no answer again are left open, at the `place` of the graph.
        """
        timeout = self.runner.limits.seconds
        longer = min(_LONGER_TIMEOUT_FACTOR * timeout, max(timeout, _MAX_LONGER_TIMEOUT_SECONDS))
        unanswered = 0
        for chosen, is_slow in list(self._unresolved.items()):
            if not (chosen < kept and len(kept - chosen) == 1):
                continue
            self.runner.allow(longer if is_slow else timeout)
            verdict = self._asked_again(chosen, int(longer > timeout) if is_slow else _MORE_ASKS)
            if verdict is Verdict.SAME:
                return True
            unanswered += verdict is Verdict.UNRESOLVED
        self.runner.allow(timeout)
        self.runner.leave_open(place, unanswered)
        return False

    def _asked_again(self, chosen: frozenset[int], times: int) -> Verdict:
        verdict = Verdict.UNRESOLVED
        for _ in range(times):
            (judged,) = self.runner.probe([self.candidate(chosen)])
            verdict = judged.verdict
            if verdict is not Verdict.UNRESOLVED:
                break
        return verdict


def is_too_slow(judged: Judged) -> bool:
    """Return whether a candidate timed out although the sought failure is no hang."""
    failure = judged.failure
    timed_out = failure is not None and failure.fingerprint.kind is Kind.TIMEOUT
    return judged.verdict is Verdict.UNRESOLVED and timed_out


def reduce_ops(
    runner: ProbeRunner, case: Case, budget: search.Budget, known: Mapping[str, bool]
) -> tuple[Case, search.Result]:
    """Find the smallest Case, by ops, that still shows the failure; `known` has answers of an interrupted run.
    The check phase has seen the whole graph fail. The empty graph counts as passing, whatever its probe showed."""
    adapter = OpSearchAdapter(runner, case.graph, lambda names: with_ops(case, names), case.failure.hints)
    everything = frozenset(range(len(adapter.groups)))
    owner = {runner.position[name]: i for name, i in adapter.owner.items()}
    answers = {
        frozenset(owner[p] for p in positions): answer
        for text, answer in known.items()
        if owner.keys() >= set(positions := _positions(text))  # this Case may lack ops of the captured one
    }

    def follow(progress: search.SearchProgress) -> None:
        runner.phase = progress.phase.value

    runner.phase = "guess"
    result = search.reduce(
        adapter.problem(),
        adapter,
        known={**answers, everything: True, frozenset(): False},
        budget=budget.after(runner.total),
        on_progress=follow,
    )
    if result.one_minimal and adapter.disproves(result.kept):
        return reduce_ops(runner, adapter.candidate(result.kept), budget, {})
    return adapter.candidate(result.kept), result


def _positions(text: str) -> list[int]:
    """Return the numbers in ranges like `0-3,7`."""
    positions: list[int] = []
    for part in filter(None, text.split(",")):
        low, _, high = part.partition("-")
        positions += range(int(low), int(high or low) + 1)
    return positions


def reduce_bodies(runner: ProbeRunner, case: Case, budget: search.Budget) -> tuple[Case, search.Ending]:
    """Reduce the bodies of higher-order ops until no op in them can be removed alone.
    Inner bodies come first, and are skipped if the reduced outer body no longer contains them."""
    runner.phase = "bodies"
    ended = search.Ending.PROVED
    done: set[Path] = set()
    while (path := next((p for p, body in bodies(case.graph) if p not in done and body.ops), None)) is not None:
        done.add(path)
        case, ended = _reduce_body(runner, case, path, budget)
        if ended is not search.Ending.PROVED:
            break
    return case, ended


def _reduce_body(runner: ProbeRunner, case: Case, path: Path, budget: search.Budget) -> tuple[Case, search.Ending]:
    body = body_at(case.graph, path)
    adapter = OpSearchAdapter(runner, body, lambda names: with_body(case, path, without_ops(body, frozenset(names))))
    result = search.reduce(adapter.problem(), adapter, budget=budget.after(runner.total))
    if result.one_minimal and adapter.disproves(result.kept, path):
        return _reduce_body(runner, adapter.candidate(result.kept), path, budget)
    return adapter.candidate(result.kept), result.ended
