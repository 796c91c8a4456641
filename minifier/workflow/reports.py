"""Report the outcome of an attempt: the controls, result.json, the reports, the bundle."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from minifier.case import Case, Drawn, TensorInput
from minifier.case.made_here import mark_of_repro
from minifier.emit.input_source import TENSOR_FILE
from minifier.emit.repro import Repro
from minifier.interfaces.losses import losses
from minifier.process.progress import Phase, Progress
from minifier.reduction.summary import Summary
from minifier.report.bundle import BUNDLE
from minifier.report.environment import EnvironmentCollector
from minifier.report.finished import Consent, Written, write_bare_reports, write_reports
from minifier.report.outcome import Outcome, Status
from minifier.workflow.attempt import Attempt
from minifier.workflow.backend_fallbacks import backend_fallbacks
from minifier.workflow.control_backends import run_with_aot_eager
from minifier.workflow.nearest import nearest_change
from minifier.workflow.placeholders import with_placeholders


def report(attempt: Attempt, collector: EnvironmentCollector) -> Outcome:
    """Write the reports of an attempt, with or without a repro, and return its outcome.

    A step that an error of this tool ends is left out; if that is the writing itself, report.md has the errors alone.
    """
    run = attempt.run
    with run.going_on():
        attempt = with_placeholders(attempt)
    folder, call, result = attempt.folder, attempt.call, attempt.repro_result
    summary, nearest, environment = attempt.reduced.summary if attempt.reduced is not None else None, "", ""
    with run.going_on():
        summary = _with_controls(attempt)
    with run.going_on():
        nearest = nearest_change(attempt)
    with run.going_on():
        environment = collector.text(run.ui.tick)
    told = backend_fallbacks(call.found.compared) if call is not None else None
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
        nearest=nearest,
        environment=environment,
        unsupported=tuple(losses()),
        fallbacks=attempt.fallbacks,
        backend_fallbacks=(told.head, *told.lines) if told is not None else (),
        phases=run.ui.seconds(),
        folder=folder.path,
        mark=mark_of_repro(attempt.repro.text.encode()) if attempt.repro is not None else "",
        errors=tuple(dict.fromkeys(run.errors)),
    )
    is_written = False
    with run.going_on():
        _write(attempt, outcome)
        is_written = True
    if not is_written:
        outcome = replace(outcome, errors=tuple(dict.fromkeys(run.errors)))
        with run.going_on():
            write_bare_reports(folder.path, outcome)
    return outcome


def _write(attempt: Attempt, outcome: Outcome) -> None:
    """Write the reports, and ask what may be in the bundle."""
    run, folder = attempt.run, attempt.folder
    consent = Consent()
    if outcome.repro is not None and outcome.repro.beside and outcome.minimal is not None:
        write_reports(folder.path, outcome)  # these stay if the process ends during a question
        consent = Consent(_may_include_data(attempt, outcome.minimal, outcome.repro))
    written = write_reports(folder.path, outcome, consent, run.ui.say)
    if written.constants and _may_include_constants(attempt, written):
        written = write_reports(folder.path, outcome, replace(consent, constants=True), run.ui.say)
    for name, size in written.left_out:
        run.ui.say(f"{name} ({size / 2**20:.0f} MiB) is not in {BUNDLE}: trackers take no more than 25 MB")


def _with_controls(attempt: Attempt) -> Summary | None:
    """Return the summary with the results of the controls; Ctrl-C skips the control with `aot_eager`."""
    if attempt.reduced is None:
        return None
    summary, result = attempt.reduced.summary, attempt.repro_result
    if result is None or result.repro is None or result.repro.template is None or result.case.is_of_torch:
        return summary
    controls = [("eager", "passes")]  # without that there is no repro
    with contextlib.suppress(KeyboardInterrupt):
        with_aot = run_with_aot_eager(result.case, result.repro, attempt.run.settings, attempt.run.ui)
        controls.append(("aot_eager", with_aot))
    return replace(summary, backends=tuple((name, how) for name, how in controls if how))


def _may_include_data(attempt: Attempt, minimal: Case, repro: Repro) -> bool:
    """Whether the files that the repro reads may be in the bundle; the user is asked if nothing is set."""
    settings, ui = attempt.run.settings, attempt.run.ui
    values = [
        f"{item.name} ({item.meta.dtype}, {' x '.join(map(str, item.meta.shape)) or 'one value'})"
        for item in minimal.inputs
        if isinstance(item, TensorInput) and not isinstance(item.source, Drawn)
    ]
    if repro.tensors is not None:
        size = repro.tensors.stat().st_size / 2**20
        ui.say(f"the repro reads real values of {', '.join(values) or 'the graph'} from {TENSOR_FILE} ({size:.1f} MiB)")
    for name, source in repro.files.items():
        ui.say(f"the repro reads {name}, a copy of {source}")
    if settings.include_data is not None:
        return settings.include_data
    with contextlib.suppress(KeyboardInterrupt):  # a no: the reports are to be written
        if ui.ask(f"Put {' and '.join(repro.beside)} into bundle.zip, for those who get that?"):
            return True
    ui.say(f"they are not in bundle.zip: `minify report {attempt.folder.shown} --include-data` puts them in")
    return False


def _may_include_constants(attempt: Attempt, written: Written) -> bool:
    """Whether a repro with constants that look like secrets may be in the bundle; asks the user if nothing is set."""
    settings, ui = attempt.run.settings, attempt.run.ui
    where = ", ".join(map(str, written.constants))
    ui.say(f"the failure needs constants of repro.py that look like secrets: {where}")
    if settings.bundle_private:
        return True
    with contextlib.suppress(KeyboardInterrupt):  # a no
        if settings.bundle_private is None and ui.ask(f"Write {BUNDLE} with this repro, for those who get that?"):
            return True
    ui.say(f"there is no {BUNDLE}: `minify report {attempt.folder.shown} --bundle-private` writes it all the same")
    return False
