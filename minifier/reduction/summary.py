"""The summary of a reduction, handed from its process to the main process."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from minifier.failure import Verdict
from minifier.process.progress import counted

KEPT = "left as it is, as the backend's own code: "  # begins a note that names functions


def by_verdict(counts: Counter[Verdict]) -> dict[str, int]:
    """Return the number of probes in all, and by verdict."""
    return {"total": counts.total(), **{verdict.value: counts[verdict] for verdict in Verdict}}


@dataclass(frozen=True, slots=True)
class Summary:
    """The result of a reduction in numbers and sentences.

    `divergent` are the ops whose compiled results differ from eager's, each with the difference.
    `unanswered` is the number of candidates that gave no answer, however often they were asked. Of the candidates that
    prove the ops, `unanswered_ops` gave no answer, and eager failed on `invalid_ops`. `innocent` are the functions of a
    smaller graph that fails too, in a result that the whole graph's results do not depend on.
    `unrecorded` is the number of the graph's values that were too large to keep: the ops that read them were not cut
    off from the ops that make them. `hidden` are passes whose candidates all showed another failure. `guilt` says of a
    wrong result whether the reduced graph's ops make the whole graph's results wrong (`reduction/guilt.py`). `cause` is
    a sentence about that. `errors` are tracebacks of this tool's own errors: of a step that was left out, or of the
    search, which then ended with the best so far.
    """

    ops_before: int
    ops_after: int
    inputs_after: int
    elements_after: int
    probes: dict[str, int]
    one_minimal: bool
    stopped_because: str
    seconds: float
    others: tuple[dict[str, Any], ...] = ()
    notes: tuple[str, ...] = ()
    divergent: tuple[tuple[str, str], ...] = ()
    passes: dict[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    backends: tuple[tuple[str, str], ...] = ()
    unanswered: int = 0
    unanswered_ops: int = 0
    invalid_ops: int = 0
    innocent: tuple[str, ...] = ()
    unrecorded: int = 0
    hidden: tuple[str, ...] = ()
    guilt: str = ""
    cause: str = ""
    errors: tuple[str, ...] = ()

    @property
    def exceptions(self) -> str:
        """Say where the failure was not seen to be gone without an op; "" if it was gone every time."""
        unanswered, invalid = (counted(number, "candidate") for number in (self.unanswered_ops, self.invalid_ops))
        ops = " and ".join(dict.fromkeys(self.innocent))
        sentences = (
            f"{unanswered} gave no answer, also when asked again" if self.unanswered_ops else "",
            f"{invalid} failed without the backend as well" if self.invalid_ops else "",
            f"{ops} alone differs too, in a result that the whole graph's results do not depend on" if ops else "",
        )
        return "; ".join(filter(None, sentences))

    @property
    def too_large(self) -> str:
        """A sentence about the values that were too large to keep; "" if there are none."""
        if not self.unrecorded:
            return ""
        values = "value of the graph was" if self.unrecorded == 1 else "values of the graph were"
        return (
            f"{self.unrecorded} {values} not kept, as all together would take more than half of the free space for "
            "temporary files: what reads them was not tried without what makes them (TMPDIR may name another disk)"
        )

    @property
    def hiding(self) -> str:
        """A sentence about passes whose candidates all showed another failure; "" if there are none."""
        if not self.hidden:
            return ""
        return f"every candidate of {' and '.join(self.hidden)} showed another failure, which may hide this one"

    @property
    def unfinished(self) -> tuple[str, ...]:
        """Return the passes that a budget or an interruption ended."""
        return tuple(name for name, end in self.passes.items() if end == "unfinished")
