"""The progress of a reduction, as each probe of its lab tells it."""

from __future__ import annotations

from collections.abc import Callable

from minifier.case import Case
from minifier.failure import Verdict
from minifier.probe.verdicts import Judged
from minifier.process.progress import Phase, Progress, counted
from minifier.reduction.probe_runner import ProbeRunner

_PROOF = "prove"  # the search phase in which every op that is left is tried once more


class ProbeProgress:
    """Called after each probe of the lab; `show` gets the progress so far."""

    def __init__(self, lab: ProbeRunner, show: Callable[[Progress], None]) -> None:
        self._lab, self._show = lab, show
        self._smallest: int | None = None

    def __call__(self, phase: str, case: Case, judged: Judged) -> None:
        ops = len(case.graph.ops)
        if judged.verdict is Verdict.SAME and (self._smallest is None or ops < self._smallest):
            self._smallest = ops
        to_prove = (self._smallest or 0) if phase == _PROOF else 0
        step = f"{phase} {self._lab.part}".strip()
        self._show(
            Progress(
                Phase.REDUCING,
                step=step,
                size=self._smallest,
                probes=self._lab.total,
                probe=f"{step}, {counted(ops, 'op')}: {judged.verdict.value} in {judged.seconds:.2f} s",
                to_prove=to_prove,
                seconds_to_prove=to_prove * self._lab.last_seconds,
            )
        )
