"""Find the first of several Cases whose whole graph shows the failure, in one process."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from minifier.case import Case
from minifier.failure import Kind, Tolerance, Verdict
from minifier.probe.prepared_case import PreparedCase, prepare_case
from minifier.probe.prober import Prober
from minifier.process.progress import Phase, Progress
from minifier.reduction.check import calibrate_without_hang
from minifier.reduction.probe_runner import ProbeRunner
from minifier.reduction.summary import by_verdict
from minifier.settings import Settings

Elsewhere = Callable[[Case, PreparedCase, Path], Prober]


@dataclass(frozen=True, slots=True)
class FirstShown:
    """The position of the first Case that shows the failure, -1 without one; the number of probes by verdict."""

    position: int
    probes: dict[str, int]


def first_shown(
    cases: Iterable[Case],
    number: int,
    settings: Settings,
    show: Callable[[Progress], None],
    elsewhere: Elsewhere | None = None,
) -> FirstShown:
    """Probe these Cases, so many, in turn, once each, until one shows its failure.

    Each probe imports the backend itself, so that the Cases may differ in what they import ahead of it. `elsewhere`
    makes the prober of a Case, if not children of this process are to probe.
    """
    counts: Counter[Verdict] = Counter()
    position, path = -1, list(sys.path)
    for place, each in enumerate(cases):
        show(Progress(Phase.REDUCING, step=f"starting point {place + 1} of {number}", probes=counts.total()))
        work = Path(tempfile.mkdtemp(prefix="minify-"))
        case = each if settings.measure == Tolerance() else replace(each, measure=settings.measure)
        sys.path[:] = path  # which the Case before has changed
        prepared = prepare_case(case, imports_in_child=True)
        runner = ProbeRunner(
            prepared, work, settings.match, settings.match_log, settings.timeout, settings.memory, grows=False
        )
        if elsewhere is not None:
            runner.prober = elsewhere(case, prepared, runner.scratch)
        try:
            if case.failure.fingerprint.kind is Kind.TIMEOUT:
                calibrate_without_hang(runner, case)
            (judged,) = runner.probe([case])
        finally:
            runner.journal.close(finished=True)
            shutil.rmtree(runner.scratch, ignore_errors=True)
            shutil.rmtree(work, ignore_errors=True)
        counts += runner.counts
        if judged.verdict is Verdict.SAME:
            position = place
            break
    return FirstShown(position, by_verdict(counts))
