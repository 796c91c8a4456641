"""The answers about the candidates of the passes, by digest: of this run, and of an interrupted one."""

from __future__ import annotations

from collections.abc import Iterable

from minifier.failure import Failure, Verdict
from minifier.probe.verdicts import Judged
from minifier.reduction.journal import Known


class Answers:
    """Maps a candidate's digest to the sought failure, or to None if it did not show.

    `passed` are candidates without any failure, `unanswered` those whose last probe gave no answer. The machine did not
    survive those in `never_tried`. `unconfirmed` answers are of an interrupted run alone.
    """

    def __init__(self, known: Known, failure: Failure) -> None:
        self._failures: dict[str, Failure | None] = {
            key: failure if shown else None for key, shown in known.shown.items()
        }
        self.unconfirmed = set(self._failures)
        self.passed = set(known.passed)
        self.never_tried = {entry.key for entry in known.skipped}
        self.unanswered: dict[str, Judged] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._failures

    def __getitem__(self, key: str) -> Failure | None:
        return self._failures[key]

    def known(self, key: str) -> bool | None:
        """Return whether the failure showed; None for a candidate that did not answer, or was not probed."""
        return None if key in self.unanswered or key not in self else self[key] is not None

    def note(self, key: str, judged: Judged) -> None:
        """Note the answer of a probe."""
        self._failures[key] = judged.failure if judged.verdict is Verdict.SAME else None
        self.unanswered.pop(key, None)
        if judged.verdict is Verdict.PASS:
            self.passed.add(key)
        if judged.verdict is Verdict.UNRESOLVED:
            self.unanswered[key] = judged

    def forget_shown(self) -> None:
        """Forget the answers of candidates that showed the failure."""
        self.forget([key for key, failure in self._failures.items() if failure is not None])

    def forget_all(self) -> None:
        """Forget all answers, except that some candidates must not be tried."""
        self.forget(set(self._failures) - self.never_tried)

    def forget(self, keys: Iterable[str]) -> None:
        """Forget answers, which are then asked for."""
        for key in list(keys):
            self._failures.pop(key, None)
            self.passed.discard(key)
            self.unconfirmed.discard(key)
