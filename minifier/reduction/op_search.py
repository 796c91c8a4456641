"""Reduces ops: connects the search over atoms to probes, for a graph and for the bodies of higher-order ops."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence

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
    atoms, those of the graph by default. The journal has the `key` of each candidate.
    """

    def __init__(
        self,
        runner: ProbeRunner,
        graph: Graph,
        build: Callable[[Collection[str]], Case],
        hints: Sequence[Sequence[str]] = (),
        groups: tuple[tuple[str, ...], ...] | None = None,
        key: Callable[[Case], str] = lambda case: "",
    ) -> None:
        self.runner, self.graph, self.build, self.hints, self.key = runner, graph, build, hints, key
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
        cases = [self.candidate(chosen) for chosen in candidates]
        judged = self.runner.probe(cases, [self.key(case) for case in cases])
        self.unanswered.note(candidates, judged)
        return [each.verdict is Verdict.SAME for each in judged]

    def problem(self) -> search.Problem:
        """Build the input of the search."""
        hints = [tuple(dict.fromkeys(self.owner[n] for n in hint if n in self.owner)) for hint in self.hints]
        return search.Problem(
            parents=parents(self.graph, self.groups),
            kinds=tuple(kind(self.graph, group) for group in self.groups),
            hints=tuple(hint for hint in hints if hint),
        )


def reduce_ops(
    runner: ProbeRunner, case: Case, budget: search.Budget, known: Mapping[str, bool]
) -> tuple[Case, search.Result]:
    """Find the smallest Case, by ops, that still shows the failure; `known` has answers of an interrupted run.
    The check phase has seen the whole graph fail. The empty graph counts as passing, whatever its probe showed.

    What is left is searched again if a candidate that gave no answer before shows the failure now. At the end it is
    searched with in-place ops and views of their tensors apart, if any are left together: most failures need no more
    than some of these."""

    def follow(progress: search.SearchProgress) -> None:
        runner.phase = progress.phase.value

    groups, answers, are_apart = atoms(case.graph), known, False
    while True:
        build = functools.partial(with_ops, case)
        adapter = OpSearchAdapter(runner, case.graph, build, case.failure.hints, groups)
        everything = frozenset(range(len(groups)))
        runner.phase = "guess"
        result = search.reduce(
            adapter.problem(),
            adapter,
            known={**_known_of(runner, groups, answers), everything: True, frozenset(): False},
            budget=budget.after(runner.total),
            on_progress=follow,
        )
        reduced = adapter.candidate(result.kept)
        if not result.one_minimal:
            return reduced, result
        if adapter.unanswered.disproves(result.kept):
            groups, answers = tuple(groups[i] for i in sorted(result.kept)), {}
        else:
            groups, answers = atoms(reduced.graph, views_stay=False), known
            if are_apart or len(groups) <= len(result.kept):
                return reduced, result
            are_apart = True
        case = reduced


def _known_of(
    runner: ProbeRunner, groups: Sequence[tuple[str, ...]], known: Mapping[str, bool]
) -> dict[frozenset[int], bool]:
    """Return the answers about unions of these atoms: the Case may lack ops of the captured graph, and a search with
    smaller atoms may have asked about a part of one."""
    positions = [frozenset(runner.position[name] for name in group) for group in groups]
    owner = {position: i for i, group in enumerate(positions) for position in group}
    answers = {}
    for text, answer in known.items():
        asked = frozenset(_positions(text))
        chosen = frozenset(owner[position] for position in asked if position in owner)
        if asked == frozenset().union(*(positions[i] for i in chosen)):
            answers[chosen] = answer
    return answers


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
    while True:
        adapter = OpSearchAdapter(runner, body_at(case.graph, path), functools.partial(_with_ops_of_body, case, path))
        result = search.reduce(adapter.problem(), adapter, budget=budget.after(runner.total))
        case = adapter.candidate(result.kept)
        if not (result.one_minimal and adapter.unanswered.disproves(result.kept, path)):
            return case, result.ended


def _with_ops_of_body(case: Case, path: Path, names: Collection[str]) -> Case:
    return with_body(case, path, without_ops(body_at(case.graph, path), frozenset(names)))
