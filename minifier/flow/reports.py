"""Report the outcome of an attempt: the controls, result.json, the reports, the bundle."""

from __future__ import annotations

import contextlib
from dataclasses import replace

from minifier.data.case import Case, Drawn, TensorInput
from minifier.data.case.files import mark_of_repro
from minifier.data.losses import losses
from minifier.flow.attempt import Attempt, backend_fallbacks
from minifier.flow.explain import part_ahead_of_backend, run_controls, with_explanation
from minifier.flow.short_definitions import nearest_change
from minifier.process.progress import Phase, Progress, Ui
from minifier.reduction.summary import Summary
from minifier.repro.emit.files_beside import contents_beside
from minifier.repro.emit.input_source import TENSOR_FILE
from minifier.repro.emit.repro import Repro
from minifier.repro.report.environment import EnvironmentCollector
from minifier.repro.report.outcome import Outcome
from minifier.repro.report.write_reports import BUNDLE, Consent, Written, write_bare_reports, write_reports


def report(attempt: Attempt, collector: EnvironmentCollector) -> Outcome:
    """Write the reports of an attempt, with or without a repro, and return its outcome.

    A step that an error of this tool ends is left out; if that is the writing itself, report.md has the errors alone.
    """
    run = attempt.run
    folder, call, result = attempt.folder, attempt.call, attempt.repro_result
    summary, nearest, environment = attempt.reduced.summary if attempt.reduced is not None else None, "", ""
    with run.going_on():
        summary = _with_controls(attempt)
    with run.going_on():
        summary = with_explanation(attempt, summary) if summary is not None else None
    with run.going_on():
        nearest = nearest_change(attempt)
    with run.going_on():
        environment = collector.text(run.ui.tick)
    run.ui.show(Progress(Phase.REPORTS))
    outcome = Outcome(
        attempt.case,
        _as_shown(attempt),
        summary,
        attempt.repro,
        result.check if result is not None else None,
        attempt.reason,
        attempt.capture_seconds,
        run.ui.total,
        call.other_failures if call is not None else (),
        call.failing.ops if call is not None and call.failing.unsaved else None,
        match=run.settings.match,
        match_log=run.settings.match_log,
        nearest=nearest,
        environment=environment,
        unsupported=tuple(losses()),
        fallbacks=attempt.fallbacks,
        backend_fallbacks=backend_fallbacks(call.found.compared) if call is not None else (),
        phases=run.ui.seconds(),
        folder=folder.path,
        errors=tuple(dict.fromkeys(run.errors)),
    )
    is_written = False
    with run.going_on():
        if attempt.repro is not None:
            text = attempt.repro.text
            outcome = replace(outcome, mark=mark_of_repro(text.encode(), contents_beside(folder.repro, text)))
        _write(attempt, outcome)
        is_written = True
    if not is_written:
        outcome = replace(outcome, errors=tuple(dict.fromkeys(run.errors)))
        with run.going_on():
            write_bare_reports(folder.path, outcome)
    return outcome


def _write(attempt: Attempt, outcome: Outcome) -> None:
    """Write the reports, and ask what may be in the bundle. They stay if the process ends during a question."""
    run, folder = attempt.run, attempt.folder
    written, consent = write_reports(folder.path, outcome), Consent()
    if outcome.repro is not None and outcome.repro.beside and outcome.minimal is not None:
        consent = replace(consent, data=_may_include_data(attempt, outcome.minimal, outcome.repro))
    if written.constants:
        consent = replace(consent, constants=_may_include_constants(attempt, written))
    if consent != Consent():
        written = write_reports(folder.path, outcome, consent)
    for name, size in written.left_out:
        run.ui.say(f"{name} ({size / 2**20:.0f} MiB) is not in {BUNDLE}: trackers take no more than 25 MB")


def _with_controls(attempt: Attempt) -> Summary | None:
    """Return the summary with the results of the controls; Ctrl-C skips those but `eager`."""
    if attempt.reduced is None:
        return None
    summary, result = attempt.reduced.summary, attempt.repro_result
    if result is None or result.repro is None or result.repro.template is None:
        return summary
    case, controls = result.case, []
    if not case.is_of_torch:
        raises = case.failure.missing_exception is not None
        controls = [("eager", "raises, which is right" if raises else "passes")]  # without that there is no repro
    run = attempt.run
    try:
        if not run.interrupted.is_set():
            controls += run_controls(case, result.repro, run.settings, run.ui)
    except KeyboardInterrupt:
        run.interrupted.set()
    summary = replace(summary, backends=tuple(controls))
    part, reason = part_ahead_of_backend(case, summary.failing_control)
    return replace(summary, part=part, reason=reason)


def _as_shown(attempt: Attempt) -> Case | None:
    """Return the reduced Case; with the failure as its repro measures it, if the repro is of this Case."""
    if attempt.reduced is None:
        return None
    minimal, result = attempt.reduced.minimal, attempt.repro_result
    is_of_it = result is not None and result.repro is not None and result.case.graph == minimal.graph
    return replace(minimal, failure=result.case.failure) if result is not None and is_of_it else minimal


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
    return _agreed(
        settings.include_data,
        ui,
        f"Put {' and '.join(repro.beside)} into {BUNDLE}, for those who get that?",
        f"they are not in {BUNDLE}: `minify report {attempt.folder.shown} --include-data` puts them in",
    )


def _may_include_constants(attempt: Attempt, written: Written) -> bool:
    """Whether a repro with constants that look like secrets may be in the bundle; asks the user if nothing is set."""
    settings, ui = attempt.run.settings, attempt.run.ui
    where = ", ".join(map(str, written.constants))
    ui.say(f"the failure needs constants of repro.py that look like secrets: {where}")
    return _agreed(
        settings.bundle_private,
        ui,
        f"Write {BUNDLE} with this repro, for those who get that?",
        f"there is no {BUNDLE}: `minify report {attempt.folder.shown} --bundle-private` writes it all the same",
    )


def _agreed(option: bool | None, ui: Ui, question: str, otherwise: str) -> bool:
    """Return what the user's option says, or else the answer to the question; say `otherwise` instead of a yes."""
    with contextlib.suppress(KeyboardInterrupt):  # a no: the reports are to be written
        if option or (option is None and ui.ask(question)):
            return True
    ui.say(otherwise)
    return False
