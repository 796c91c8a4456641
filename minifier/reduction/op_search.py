"""Reduces ops: connects the search over atoms to probes, for a graph and for the bodies of higher-order ops."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence

from minifier import search
from minifier.case import Case, Graph
from minifier.case.ops import atoms, kind, parents, with_ops
from minifier.failure import Verdict
from minifier.passes.bodies import Path, bodies, body_at, with_body, without_ops
from minifier.reduction.probe_runner import ProbeRunner
from minifier.reduction.unanswered import Unanswered


class OpSearchAdapter:
    """Presents a graph to the search as numbered atoms, and probes candidates.
    `build` makes the Case that has only the given ops of the graph. `hints` are groups of op names. `groups` are the
    atoms, those of the graph by default. `known` tells whether a candidate shows the failure; None: unknown.
    """

    def __init__(
        self,
        runner: ProbeRunner,
        graph: Graph,
        build: Callable[[Collection[str]], Case],
        hints: Sequence[Sequence[str]] = (),
        groups: tuple[tuple[str, ...], ...] | None = None,
        known: Callable[[Case], bool | None] = lambda case: None,
    ) -> None:
        self.runner, self.graph, self.build, self.hints, self.known = runner, graph, build, hints, known
        self.groups = atoms(graph) if groups is None else groups
        self.owner = {name: i for i, group in enumerate(self.groups) for name in group}
        self.unanswered = Unanswered(runner, self.candidate)

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
        self.unanswered.note(candidates, judged)
        return [each.verdict is Verdict.SAME for each in judged]

    def get(self, chosen: frozenset[int], /) -> bool | None:
        """Return whether the failure shows with these atoms; None if that is not known.

        The graph without ops counts as passing, whatever its probe showed.
        """
        candidate = self.candidate(chosen)
        return self.known(candidate) if candidate.graph.ops else False

    def problem(self) -> search.Problem:
        """Build the input of the search."""
        hints = [tuple(dict.fromkeys(self.owner[n] for n in hint if n in self.owner)) for hint in self.hints]
        return search.Problem(
            parents=parents(self.graph, self.groups),
            kinds=tuple(kind(self.graph, group) for group in self.groups),
            hints=tuple(hint for hint in hints if hint),
        )


def reduce_ops(
    runner: ProbeRunner, case: Case, budget: search.Budget, *, anew: bool = False
) -> tuple[Case, search.Result]:
    """Find the smallest Case, by ops, that still shows the failure; answers of an interrupted run count unless `anew`.
    The check phase has seen the whole graph fail.

    What is left is searched again if a candidate that gave no answer before shows the failure now. At the end it is
    searched with in-place ops and views of their tensors apart, if any are left together: most failures need no more
    than some of these."""

    def follow(progress: search.SearchProgress) -> None:
        runner.phase = progress.phase.value

    groups, are_apart = atoms(case.graph), False
    while True:
        build = functools.partial(with_ops, case)
        adapter = OpSearchAdapter(
            runner, case.graph, build, case.failure.hints, groups, _nothing if anew else runner.known
        )
        runner.phase = "guess"
        result = search.reduce(
            adapter.problem(),
            adapter,
            known=adapter,
            budget=budget.after(runner.total),
            on_progress=follow,
        )
        reduced = adapter.candidate(result.kept)
        if not result.one_minimal:
            return reduced, result
        if adapter.unanswered.disproves(result.kept):
            groups, anew = tuple(groups[i] for i in sorted(result.kept)), True
        else:
            groups = atoms(reduced.graph, views_stay=False)
            if are_apart or len(groups) <= len(result.kept):
                return reduced, result
            are_apart = True
        case = reduced


def _nothing(_case: Case) -> None:
    """Know nothing of any candidate."""


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
    while True:
        build = functools.partial(_with_ops_of_body, case, path)
        adapter = OpSearchAdapter(runner, body_at(case.graph, path), build, known=runner.known)
        result = search.reduce(adapter.problem(), adapter, known=adapter, budget=budget.after(runner.total))
        case = adapter.candidate(result.kept)
        if not (result.one_minimal and adapter.unanswered.disproves(result.kept, path)):
            return case, result.ended


def _with_ops_of_body(case: Case, path: Path, names: Collection[str]) -> Case:
    return with_body(case, path, without_ops(body_at(case.graph, path), frozenset(names)))
