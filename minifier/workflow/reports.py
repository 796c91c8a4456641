"""Report the outcome of an attempt: the controls, result.json, the reports, the bundle."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from minifier.case import Drawn, TensorInput
from minifier.case.store import CASE, load
from minifier.emit.footer import difference
from minifier.emit.input_source import TENSOR_FILE
from minifier.emit.repro import write_repro
from minifier.errors import NoRepro
from minifier.process.progress import Phase, Progress
from minifier.reduction.reduce_case import NEAREST
from minifier.reduction.summary import Summary
from minifier.report.environment import EnvironmentCollector
from minifier.report.finished import write_reports
from minifier.report.outcome import Outcome, Status
from minifier.workflow.attempt import Attempt
from minifier.workflow.control_backends import run_with_aot_eager


def report(attempt: Attempt, collector: EnvironmentCollector) -> Outcome:
    """Write the reports of an attempt, with or without a repro, and return its outcome."""
    run, folder, call, result = attempt.run, attempt.folder, attempt.call, attempt.repro_result
    summary = _with_controls(attempt)
    run.ui.show(Progress(Phase.REPORTS))
    status = Status.NO_REPRO
    if attempt.repro is not None and summary is not None:
        status = Status.STOPPED if summary.stopped_because else Status.REDUCED
    outcome = Outcome(
        status,
        attempt.case,
        attempt.reduced.minimal if attempt.reduced is not None else None,
        summary,
        attempt.repro,
        result.check if result is not None else None,
        attempt.reason,
        attempt.capture_seconds,
        run.ui.total,
        call.other_failures if call is not None else (),
        call.failing.ops if call is not None and call.unsaved else None,
        match=run.settings.match,
        match_log=run.settings.match_log,
        nearest=_nearest(attempt),
        environment=collector.text(run.ui.tick),
        fallbacks=attempt.fallbacks,
        phases=run.ui.seconds(),
        folder=folder.path,
    )
    bundle = write_reports(folder.path, outcome)
    if _may_include_data(attempt, outcome):
        bundle = write_reports(folder.path, outcome, include_data=True)
    for name, size in bundle.left_out:
        run.ui.say(f"{name} ({size / 2**20:.0f} MiB) is not in {bundle.path.name}: trackers take no more than 25 MB")
    return outcome


def _with_controls(attempt: Attempt) -> Summary | None:
    """Return the summary with the results of the controls; Ctrl-C skips the control with `aot_eager`."""
    if attempt.reduced is None:
        return None
    summary, result = attempt.reduced.summary, attempt.repro_result
    if result is None or result.repro is None or result.repro.template is None or result.case.while_tracing:
        return summary
    controls = [("eager", "passes")]  # without that there is no repro
    with contextlib.suppress(KeyboardInterrupt):
        with_aot = run_with_aot_eager(result.case, result.repro, attempt.run.settings, attempt.run.ui)
        controls.append(("aot_eager", with_aot))
    return replace(summary, backends=tuple((name, how) for name, how in controls if how))


def _may_include_data(attempt: Attempt, outcome: Outcome) -> bool:
    """Whether the values that the repro reads from a file may be in the bundle; the user is asked if nothing is set."""
    settings, ui = attempt.run.settings, attempt.run.ui
    if outcome.repro is None or outcome.repro.tensors is None or outcome.minimal is None:
        return False
    values = [
        f"{item.name} ({item.meta.dtype}, {' x '.join(map(str, item.meta.shape)) or 'one value'})"
        for item in outcome.minimal.inputs
        if isinstance(item, TensorInput) and not isinstance(item.source, Drawn)
    ]
    size = outcome.repro.tensors.stat().st_size / 2**20
    ui.say(f"the repro reads real values of {', '.join(values) or 'the graph'} from {TENSOR_FILE} ({size:.1f} MiB)")
    if settings.include_data is not None:
        return settings.include_data
    with contextlib.suppress(KeyboardInterrupt):  # a no: the reports are to be written
        if ui.ask(f"Put {TENSOR_FILE} into bundle.zip, for those who get that?"):
            return True
    ui.say(f"they are not in bundle.zip: `minify report {attempt.folder.path} --include-data` puts them in")
    return False


def _nearest(attempt: Attempt) -> str:
    """Return the smallest known change of the repro that removes the failure, as a diff; "" if none is known."""
    folder, repro = attempt.folder.path / NEAREST, attempt.repro
    if repro is None or repro.template is None or attempt.folder.has_forward or not (folder / CASE).exists():
        return ""
    try:
        other = write_repro(load(folder), repro.template, repro.variant, attempt.run.settings.memory)
    except NoRepro:
        return ""
    return difference(repro.text, other.text)
