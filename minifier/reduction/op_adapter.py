"""A graph as the search core sees it: atoms by number, with probes behind them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from minifier import search
from minifier.case import Case, Graph
from minifier.case.ops import atoms, kind, parents
from minifier.failure import Kind, Verdict
from minifier.probe.verdicts import Judged
from minifier.reduction.probe_runner import ProbeRunner

_MORE_PATIENT = 10  # times the time limit, for a candidate that was given up and on which the proof rests
_LONGEST = 60.0  # seconds


class OpSearchAdapter:
    """`build` makes the Case that has only these ops of the graph; `hints` are names of ops that go together."""

    def __init__(
        self,
        lab: ProbeRunner,
        graph: Graph,
        build: Callable[[Collection[str]], Case],
        hints: Sequence[Sequence[str]] = (),
    ) -> None:
        self.lab, self.graph, self.build, self.hints = lab, graph, build, hints
        self.groups = atoms(graph)
        self.owner = {name: i for i, group in enumerate(self.groups) for name in group}
        self._too_slow: set[frozenset[int]] = set()

    @property
    def workers(self) -> int:
        """How many candidates are worth trying at once."""
        return self.lab.workers

    def candidate(self, chosen: frozenset[int]) -> Case:
        """The Case with these atoms."""
        return self.build([name for i in sorted(chosen) for name in self.groups[i]])

    def probe(self, candidates: Sequence[frozenset[int]]) -> Sequence[bool]:
        """Whether each of these sets of atoms shows the failure."""
        judged = self.lab.probe([self.candidate(chosen) for chosen in candidates])
        self._too_slow |= {c for c, j in zip(candidates, judged, strict=True) if is_too_slow(j)}
        return [each.verdict is Verdict.SAME for each in judged]

    def problem(self) -> search.Problem:
        """What the search core is told."""
        hints = [tuple(dict.fromkeys(self.owner[n] for n in hint if n in self.owner)) for hint in self.hints]
        return search.Problem(
            parents=parents(self.graph, self.groups),
            kinds=tuple(kind(self.graph, group) for group in self.groups),
            hints=tuple(hint for hint in hints if hint),
        )

    def rests_on_slow(self, kept: frozenset[int]) -> bool:
        """Whether the proof of `kept` rests on a candidate that was given up too early: with more time it fails as is
        sought. More time is what all get from then on."""
        before = self.lab.limits.seconds
        patient = min(_MORE_PATIENT * before, max(before, _LONGEST))
        for chosen in self._too_slow:
            if chosen < kept and len(kept - chosen) == 1 and patient > before:
                self.lab.allow(patient)
                if self.probe([chosen])[0]:
                    return True
        self.lab.allow(before)
        return False


def is_too_slow(judged: Judged) -> bool:
    """Whether a candidate was given up because it took too long, where that is not what is sought."""
    failure = judged.failure
    is_late = failure is not None and failure.fingerprint.kind is Kind.TIMEOUT
    return judged.verdict is Verdict.UNRESOLVED and is_late
