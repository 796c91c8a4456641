"""Candidates without an answer: asked again where a claim rests on them, and counted if they never answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from minifier.case import Case
from minifier.case.ops import with_ops
from minifier.failure import Verdict
from minifier.probe.verdicts import Judged
from minifier.reduction.probe_runner import ProbeRunner

_MORE_ASKS = 2  # of a candidate without an answer
_LONGER_TIMEOUT_FACTOR = 10  # for such a candidate that timed out; it is asked once
_MAX_LONGER_TIMEOUT_SECONDS = 60.0
_UNTOLD = (Verdict.UNRESOLVED, Verdict.INVALID)
_EMPTY = ("", "the graph without ops")  # a place of `ProbeRunner.unanswered`


def asked_again(runner: ProbeRunner, candidate: Case, *, is_slow: bool) -> Judged:
    """Probe a candidate without an answer again, and return the last judgement.

    A slow candidate timed out before: it gets a longer timeout, which stays if the failure shows.
    """
    timeout = runner.limits.seconds
    longer = min(_LONGER_TIMEOUT_FACTOR * timeout, max(timeout, _MAX_LONGER_TIMEOUT_SECONDS)) if is_slow else timeout
    runner.allow(longer)
    runner.grows = False  # this is more time already
    judged = Judged(Verdict.UNRESOLVED, 0.0)
    for _ in range(int(longer > timeout) if is_slow else _MORE_ASKS):
        (judged,) = runner.probe([candidate])
        if judged.verdict not in _UNTOLD:
            break
    runner.grows = True
    if judged.verdict is not Verdict.SAME:
        runner.allow(timeout)
    return judged


@dataclass
class Unanswered:
    """The candidates of a search that gave no answer, or on which eager failed, perhaps by chance. `build` makes the
    Case of a candidate."""

    runner: ProbeRunner
    build: Callable[[frozenset[int]], Case]
    _slow: dict[frozenset[int], bool] = field(default_factory=dict)

    def note(self, candidates: Sequence[frozenset[int]], judged: Sequence[Judged]) -> None:
        """Note the candidates whose probes do not tell whether the failure is gone."""
        for chosen, each in zip(candidates, judged, strict=True):
            if each.verdict in _UNTOLD:
                self._slow[chosen] = each.ran_out_of_time

    def disproves(self, kept: frozenset[int], place: Sequence[str] = ()) -> bool:
        """Ask again for the candidates that the proof of `kept` rests on; return whether one of them fails.

        Candidates that do not tell it again are left open, at the `place` of the graph.
        """
        untold: Counter[Verdict] = Counter()
        for chosen, is_slow in list(self._slow.items()):
            if not (chosen < kept and len(kept - chosen) == 1):
                continue
            verdict = asked_again(self.runner, self.build(chosen), is_slow=is_slow).verdict
            if verdict is Verdict.SAME:
                return True
            untold[verdict] += verdict in _UNTOLD
        self.runner.leave_open(place, +untold)
        return False


def note_empty_graph(runner: ProbeRunner, judged: Judged) -> None:
    """Note whether the graph without ops gave an answer."""
    runner.untold[_EMPTY] = Counter(filter(_UNTOLD.__contains__, [judged.verdict]))


def with_empty_graph(runner: ProbeRunner, case: Case) -> Case:
    """Return the Case, marked if any graph fails. With one op left, ask for the graph without ops again.

    Only then its answer matters: if it shows the failure, the failure does not need that op.
    """
    if not runner.untold.pop(_EMPTY, None) or len(case.graph.ops) > 1:
        return case
    judged = asked_again(runner, with_ops(case, ()), is_slow=False)
    note_empty_graph(runner, judged)
    return replace(case, any_graph=True) if judged.verdict is Verdict.SAME else case
