"""Find the part at fault in a verified repro, and verify changes that avoid the failure."""

from __future__ import annotations

import contextlib
import itertools
import shutil
from dataclasses import replace
from pathlib import Path

from minifier.capturing.capture import passes_without
from minifier.capturing.uncompiled import statement_of
from minifier.data.case import Case
from minifier.data.case.literals import WITHOUT, setting_statement
from minifier.data.case.run_folder import RunFolder
from minifier.data.failure import Kind
from minifier.errors import LimitReached, NoRepro, StoppedEarly, UsageError
from minifier.flow.attempt import Attempt, ReproResult, Run, stopped_if_interrupted
from minifier.flow.controls import DECOMPOSES, part_ahead_of_backend, with_control
from minifier.flow.folders import asked_there
from minifier.flow.reduce_in_child import in_child, with_threads
from minifier.flow.repro_search import search_for
from minifier.process.progress import Phase, Progress
from minifier.reduction.changes import Change, changes_of
from minifier.reduction.explain import OWN_PASS, explain, with_setting
from minifier.reduction.summary import Summary
from minifier.repro.emit.repro import Repro, write_repro
from minifier.repro.report.outcome import Outcome
from minifier.repro.report.write_reports import read_finished, write_reports

_MIN_SECONDS = 20.0  # for an explanation, however short the reduction was
_MAX_SHARE = 0.5  # of the reduction's seconds, for an explanation
_MAX_CLASSES = 2  # that are excluded from compilation, one after the other: each takes a run of the script


def explain_folder(folder: Path, seconds: float, run: Run) -> Outcome:
    """Explain a finished run in so many seconds, and write its reports anew.

    Raises UsageError if there is no finished run, or its repro is flaky or not of a graph.
    """
    outcome, consent = read_finished(folder)
    result = ReproResult(outcome.minimal or outcome.case, outcome.repro)
    if outcome.summary is None or not _can_be_explained(result):
        raise UsageError(f"{folder}: only the repro of a graph that fails each time can be explained.")
    run = replace(run, settings=replace(run.settings, match=outcome.match, match_log=outcome.match_log))
    attempt = Attempt(run, RunFolder(folder), outcome.case, asked_there(folder), repro_result=result)
    with stopped_if_interrupted(attempt):
        outcome = replace(outcome, summary=with_explanation(attempt, outcome.summary, seconds))
        write_reports(folder, outcome, consent)
    return outcome


def _can_be_explained(result: ReproResult | None) -> bool:
    """Whether there is a verified repro of a graph, which fails each time."""
    has_form = result is not None and result.repro is not None and result.repro.template is not None
    return result is not None and has_form and result.case.rate >= 1 and not result.case.is_of_torch


def with_explanation(attempt: Attempt, summary: Summary, seconds: float = 0.0) -> Summary:
    """Return the summary with what further probes of the minimal Case tell of the failure; Ctrl-C ends these probes.

    They take up to `seconds`, by default half of what the reduction took, and at least `_MIN_SECONDS`, as far as the
    time of the run goes. What the summary has already stays where they tell nothing of it.
    """
    result, run, folder = attempt.repro_result, attempt.run, attempt.folder
    if not summary.artifacts:  # of an earlier run in this folder
        shutil.rmtree(folder.artifacts, ignore_errors=True)
    if not _can_be_explained(result) or not run.settings.explain or run.interrupted.is_set():
        return summary
    assert result is not None and result.repro is not None, "there is a repro"
    case = result.case
    # What comes after a control that fails is not at fault.
    asked = with_control(case, summary.failing_control) if summary.failing_control else case
    seconds = min(seconds or max(_MIN_SECONDS, _MAX_SHARE * summary.seconds), run.settings.seconds_left)
    if not seconds:
        return summary
    try:
        with folder.scratch("dumped") as dumped:
            explanation = with_threads(
                attempt,
                lambda in_each_probe: in_child(
                    attempt,
                    folder.path,
                    lambda pipe: explain(asked, run.settings, seconds, dumped, pipe.show, in_each_probe),
                    Progress(Phase.EXPLAINING),
                    "interrupted: asking no more; press Ctrl-C again to stop at once",
                ),
            )
            if explanation.artifacts:
                shutil.rmtree(folder.artifacts, ignore_errors=True)
                dumped.rename(folder.artifacts)
    except (KeyboardInterrupt, NoRepro, StoppedEarly, LimitReached) as error:  # the results so far are to be reported
        run.ui.say(f"not known what is at fault: {str(error) or 'interrupted'}")
        return summary
    known = summary
    part, reason = part_ahead_of_backend(case, summary.failing_control)
    if part in ("", DECOMPOSES) and explanation.part:  # which decomposition, say
        part, reason = explanation.part, f"{explanation.reason} {reason}".strip()
    summary = replace(
        summary,
        explained=explanation.answers,
        part=part or known.part,
        reason=reason if part else known.reason,
        workarounds=(),
        artifacts=explanation.artifacts or known.artifacts,
    )
    tried = [each for group in changes_of(case) for each in group if each.line in explanation.changes]
    tried += [Change("", setting_statement(each), with_setting(case, each)) for each in explanation.avoiding]
    with contextlib.suppress(KeyboardInterrupt):
        for change in tried:
            if run.interrupted.is_set() or not run.settings.seconds_left:
                break
            if _passes(attempt, change.case, result.repro):  # it takes a fresh interpreter, so one change is enough
                summary = _with_source_at_fault(summary, change) if change.source else summary
                summary = replace(summary, workarounds=(change.line,))
                break
        if not summary.workarounds and not run.interrupted.is_set():
            summary = replace(summary, uncompiled=_uncompiled(attempt, seconds) or known.uncompiled)
    return summary if summary.workarounds else replace(summary, workarounds=known.workarounds)


def _with_source_at_fault(summary: Summary, change: Change) -> Summary:
    """Return the summary with what the program gives as the part at fault, unless more is known.

    Another value of an argument may ask for less, which tells nothing of a part that is known.
    """
    is_left_out = change.line.startswith(WITHOUT)
    if summary.part and (not is_left_out or OWN_PASS in summary.part):
        return summary
    how = "Without it" if is_left_out else f"With {change.line}"
    part = f"what the program's own {change.source} asks for"
    return replace(summary, part=part, reason=f"{how} the repro does not fail.")


def _uncompiled(attempt: Attempt, seconds: float) -> str:
    """Return a statement with which the script passes: it excludes the module of an op that is left; "" for none.

    The whole model is no answer, and a script that takes long is not run again.
    """
    case, call = attempt.case, attempt.call
    if call is None or attempt.reduced is None:  # of a folder, whose script may have changed
        return ""
    innermost = [node.modules[-1][2] for node in attempt.reduced.minimal.graph.ops if len(node.modules) > 1]
    classes = dict.fromkeys(each for each in innermost if "<" not in each)  # a local class has no name to write
    if call.found.captured.seconds > seconds or case.failure.fingerprint.kind is Kind.SILENT_FALLBACK:
        return ""
    for each in itertools.islice(classes, _MAX_CLASSES):
        if passes_without(call.found, each, seconds, attempt.run.ui):
            return statement_of(each)
    return ""


def _passes(attempt: Attempt, case: Case, repro: Repro) -> bool:
    """Tell whether a fresh interpreter runs the Case, in the form of the repro, without any failure."""
    template, variant = repro.form
    try:
        changed = write_repro(case, template, variant, attempt.run.settings.memory)
    except NoRepro:
        return False
    (run,) = search_for(attempt, case).verified(changed, (), runs=1).runs
    return run.failure is None and run.status == 0
