"""Reduces ops: the search over atoms, for a graph and for bodies of higher-order ops."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence

from minifier import search
from minifier.data.case import Case, Graph
from minifier.data.case.calls import call_of, is_alike, with_others
from minifier.data.case.ops import atoms, kind, parents, with_ops
from minifier.data.failure import Kind, Verdict
from minifier.reduction.passes.inlining import calls, has_branches, holds_calls, inlined
from minifier.reduction.passes.operands import Path, bodies, body_at, with_body, without_ops
from minifier.reduction.probe_runner import Atom, ProbeRunner, Unanswered


class OpSearchAdapter:
    """Presents a graph, and the calls ahead of its own, to the search as numbered atoms; probes the candidates.

    `build` makes the Case that has only these ops of the graph, and these of the `calls`. `hints` are groups of op
    names. `groups` are the atoms of the graph. `known` tells whether a Case shows the failure; None: unknown.
    """

    def __init__(
        self,
        runner: ProbeRunner,
        graph: Graph,
        build: Callable[[Collection[str]], Case],
        hints: Sequence[Sequence[str]] = (),
        groups: tuple[Atom, ...] | None = None,
        known: Callable[[Case], bool | None] = lambda case: None,
        calls: Sequence[str] = (),
    ) -> None:
        self.runner, self.graph, self.build, self.hints, self.known = runner, graph, build, hints, known
        self.calls, self.ops = calls, atoms(graph) if groups is None else groups
        self.atoms: tuple[Atom, ...] = (*((name,) for name in calls), *self.ops)
        self.unanswered = Unanswered(runner, self.candidate)

    def candidate(self, chosen: search.Atoms) -> Case:
        """Return the Case with the chosen atoms."""
        return self.build([name for i in sorted(chosen) for name in self.atoms[i]])

    @property
    def workers(self) -> int:
        """How many candidates to probe at once."""
        return self.runner.workers

    def probe(self, candidates: Sequence[search.Atoms]) -> Sequence[bool]:
        """Return for each set of atoms whether the failure shows."""
        judged = self.runner.probe([self.candidate(chosen) for chosen in candidates])
        self.unanswered.note(candidates, judged)
        return [each.verdict is Verdict.SAME for each in judged]

    def get(self, chosen: search.Atoms, /) -> bool | None:
        """Return whether the failure shows, None if that is not known; without any op it counts as gone."""
        candidate = self.candidate(chosen)
        return self.known(candidate) if candidate.graph.ops else False

    def problem(self) -> search.Problem:
        """Build the input of the search."""
        ahead = range(len(self.calls))
        owner = {name: i for i, group in enumerate(self.atoms) for name in group}
        hints = [dict.fromkeys(owner[n] for n in hint if n in owner) for hint in self.hints]
        of_ops = [tuple(len(ahead) + parent for parent in each) for each in parents(self.graph, self.ops)]
        return search.Problem(
            parents=(*(() for _ in ahead), *of_ops),
            kinds=(*self.calls, *(kind(self.graph, group) for group in self.ops)),
            hints=tuple((*ahead, *hint) for hint in hints if hint),
        )


def reduce_ops(
    runner: ProbeRunner, case: Case, budget: search.Budget, *, anew: bool = False, groups: tuple[Atom, ...] = ()
) -> tuple[Case, search.Result]:
    """Find the fewest ops, and calls of other graphs ahead, that still show the failure. All of them, or these groups
    of ops, have been seen to fail. Answers of an interrupted run count unless `anew`.

    What is left is searched again if a candidate that gave no answer before shows the failure now. At the end it is
    searched with in-place ops and views of their tensors apart, if any are left together: most failures need no more
    than some of these."""

    def follow(progress: search.SearchProgress) -> None:
        runner.phase = progress.phase.value

    groups, are_apart = groups or atoms(case.graph), False
    while True:
        known: Callable[[Case], bool | None] = (lambda _case: None) if anew else runner.known
        adapter = OpSearchAdapter(runner, case.graph, parts_of(case), case.failure.hints, groups, known, calls_of(case))
        runner.phase = "guess"
        result = search.reduce(
            adapter.problem(), adapter, known=adapter, budget=budget.after(runner.total), on_progress=follow
        )
        reduced = adapter.candidate(result.kept)
        if not result.one_minimal:
            return reduced, result
        if (smaller := adapter.unanswered.disproved(result.kept)) is not None:
            reduced, left = adapter.candidate(smaller), (adapter.atoms[i] for i in sorted(smaller))
            groups, anew = tuple(group for group in left if group in adapter.ops), True
        else:
            groups = atoms(reduced.graph, views_stay=False)
            if are_apart or len(groups) + len(reduced.others) <= len(result.kept):
                return reduced, result
            are_apart = True
        case = reduced


def calls_of(case: Case) -> list[str]:
    """Return a name for each call of another graph ahead."""
    return [f"call {number}" for number in range(len(case.others))]


def parts_of(case: Case) -> Callable[[Collection[str]], Case]:
    """Return what makes the Case with only these of its ops, and of its calls ahead.

    Calls of a graph like the Case's own, with other sizes, say, keep the same ops as it: a backend that takes one graph
    for another, for the key of its cache, fails only while both are alike.
    """
    calls = [(name, call, case.of(call)) for name, call in zip(calls_of(case), case.others, strict=True)]
    alike = {name for name, _, of_call in calls if is_alike(of_call.graph, case.graph)}

    def build(names: Collection[str]) -> Case:
        ops = [name for name in names if name in case.graph.index]
        left = [
            None if name not in names else call_of(with_ops(of_call, ops), call) if name in alike else call
            for name, call, of_call in calls
        ]
        return with_others(with_ops(case, ops), left)

    return build


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
        smaller = adapter.unanswered.disproved(result.kept, path) if result.one_minimal else None
        case = adapter.candidate(result.kept if smaller is None else smaller)
        if not smaller:
            return case, result.ended


def _with_ops_of_body(case: Case, path: Path, names: Collection[str]) -> Case:
    return with_body(case, path, without_ops(body_at(case.graph, path), frozenset(names)))


_MAX_SINGLE_TRIES = 8  # of wrappers inlined alone, if not all can be inlined


def without_wrappers(runner: ProbeRunner) -> None:
    """Replace checkpoints, `cond`s and other wrappers by their bodies, if the failure stays.
    The search can then remove single inner ops, and the repro is shorter."""
    case = runner.prepared.case
    names = calls(case.graph)
    if not names or case.failure.fingerprint.kind is Kind.TIMEOUT:
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
