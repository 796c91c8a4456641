"""Reports the progress of a reduction after each probe."""

from __future__ import annotations

from collections.abc import Callable

from minifier.case import Case
from minifier.failure import Verdict
from minifier.probe.verdicts import Judged
from minifier.process.progress import Phase, Progress, counted
from minifier.reduction.probe_runner import ProbeRunner

_PROOF = "prove"  # the search phase that deletes each remaining op alone


class ProbeProgress:
    """Callback for ProbeRunner.on_probe; `show` gets the progress so far."""

    def __init__(self, runner: ProbeRunner, show: Callable[[Progress], None]) -> None:
        self._runner, self._show = runner, show
        self._smallest: int | None = None

    def __call__(self, phase: str, case: Case, judged: Judged) -> None:
        ops = len(case.graph.ops)
        if judged.verdict is Verdict.SAME and (self._smallest is None or ops < self._smallest):
            self._smallest = ops
        to_prove = (self._smallest or 0) if phase == _PROOF else 0
        step = f"{phase} {self._runner.part}".strip()
        self._show(
            Progress(
                Phase.REDUCING,
                step=step,
                size=self._smallest,
                probes=self._runner.total,
                probe=f"{step}, {counted(ops, 'op')}: {judged.verdict.value} in {judged.seconds:.2f} s",
                to_prove=to_prove,
                seconds_to_prove=to_prove * self._runner.last_seconds,
            )
        )
