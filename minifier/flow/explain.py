"""Explain a verified repro: run it with control backends, ask what of the compiler is at fault, verify workarounds."""

from __future__ import annotations

import contextlib
import itertools
import os
import runpy
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from minifier.capturing.capture import passes_without
from minifier.capturing.uncompiled import statement_of
from minifier.data.case import BackendReference, BackendSource, Case, Level
from minifier.data.case.literals import WITHOUT, setting_statement
from minifier.data.case.run_folder import RunFolder
from minifier.data.failure import Kind, Stage
from minifier.data.settings import Settings
from minifier.errors import LimitReached, NoRepro, StoppedEarly, UsageError
from minifier.flow.attempt import Attempt, ReproResult, Run
from minifier.flow.folders import asked_there
from minifier.flow.reduce_in_child import in_child
from minifier.flow.repro_search import search_for, stopped_if_interrupted
from minifier.process.interpreters import replace_programs_folder
from minifier.process.progress import SILENT, Display, Phase, Progress
from minifier.reduction.explain import OWN_PASS, Explanation, explain, with_setting, without_setting
from minifier.reduction.passes.state import without_option
from minifier.reduction.probe.children import ChildEnd, Limits, run_again_if_killed
from minifier.reduction.summary import Summary
from minifier.repro.emit.repro import Repro, write_repro
from minifier.repro.report.outcome import Outcome
from minifier.repro.report.write_reports import read_finished, write_reports
from minifier.torch_side.torch_private import INDUCTOR, backend_error

AOT_EAGER, DECOMPOSED = (
    BackendReference(name, BackendSource.REGISTERED, f'"{name}"')
    for name in ("aot_eager", "aot_eager_decomp_partition")
)
_MIN_TIMEOUT_SECONDS = 60.0
_MIN_SECONDS = 20.0  # for an explanation, however short the reduction was
_MAX_WORKAROUNDS = 2  # that are verified: each takes a fresh interpreter
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
    with stopped_if_interrupted(attempt.folder, "interrupted"):
        outcome = replace(outcome, summary=with_explanation(attempt, outcome.summary, seconds))
        write_reports(folder, outcome, consent)
    return outcome


def _can_be_explained(result: ReproResult | None) -> bool:
    """Whether there is a verified repro of a graph, which fails each time."""
    has_form = result is not None and result.repro is not None and result.repro.template is not None
    return result is not None and has_form and result.case.rate >= 1 and not result.case.is_of_torch


def with_explanation(attempt: Attempt, summary: Summary, seconds: float = 0.0) -> Summary:
    """Return the summary with what further probes of the minimal Case tell of the failure; Ctrl-C ends these probes.

    They take up to `seconds`, by default as long as the reduction took, and at least `_MIN_SECONDS`.
    """
    result, run, artifacts = attempt.repro_result, attempt.run, attempt.folder.artifacts
    shutil.rmtree(artifacts, ignore_errors=True)  # of an earlier run in this folder
    if not _can_be_explained(result) or not run.settings.explain:
        return summary
    assert result is not None and result.repro is not None, "there is a repro"
    case = result.case
    seconds = seconds or max(_MIN_SECONDS, summary.seconds)
    try:
        explanation = in_child(
            attempt,
            attempt.folder.path,
            Explanation,
            lambda pipe: explain(case, run.settings, seconds, artifacts, pipe.show),
            Progress(Phase.EXPLAINING),
            "interrupted: asking no more; press Ctrl-C again to stop at once",
        )
    except (KeyboardInterrupt, NoRepro, StoppedEarly, LimitReached) as error:  # the results so far are to be reported
        run.ui.say(f"not known what is at fault: {error or 'interrupted'}")
        return summary
    summary = replace(
        summary,
        explained=explanation.answers,
        part=explanation.part,
        reason=explanation.reason,
        workarounds=(),
        artifacts=explanation.artifacts,
    )
    changes = [(f"{WITHOUT}{setting_statement(each)}", without_setting(case, each)) for each in case.state.config]
    given = case.backend.options or {}
    changes += [(f"{WITHOUT}options={{{key!r}: {value!r}}}", without_option(key)(case)) for key, value in given.items()]
    changes += [(setting_statement(each), with_setting(case, each)) for each in explanation.avoiding]
    with contextlib.suppress(KeyboardInterrupt):
        for change, changed in changes:
            if len(summary.workarounds) == _MAX_WORKAROUNDS:
                break
            if _passes(attempt, changed, result.repro):
                summary = replace(summary, workarounds=(*summary.workarounds, change))
        own = next((each.removeprefix(WITHOUT) for each in summary.workarounds if each.startswith(WITHOUT)), "")
        if own and OWN_PASS not in summary.part:
            what = f"what the program's own {own} switches on"
            summary = replace(summary, part=what, reason="Without it, the repro does not fail.")
        if not summary.workarounds:
            summary = replace(summary, uncompiled=_uncompiled(attempt, seconds))
    return summary


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


def run_with_controls(
    case: Case, repro: Repro, settings: Settings, display: Display = SILENT
) -> Iterator[tuple[str, str]]:
    """Run the Case's repro with torch's backends that compile nothing, and yield (backend, how it ended).

    Nothing runs for a graph that AOTAutograd made, or if the failure is only a logged line.
    """
    is_line = case.failure.fingerprint.kind is Kind.SILENT_FALLBACK
    if case.level is Level.DYNAMO and repro.template is not None and not is_line:
        for backend in (AOT_EAGER, *([DECOMPOSED] if case.backend.name == INDUCTOR else [])):
            yield backend.name, _run_with(backend, case, repro, settings, display)


def _run_with(backend: BackendReference, case: Case, repro: Repro, settings: Settings, display: Display) -> str:
    """Run the repro with another backend, and describe the result; "" if that is not possible."""
    assert repro.template is not None, "a repro of a graph"
    backend = replace(backend, dynamic=case.backend.dynamic)
    try:
        script = write_repro(replace(case, backend=backend), repro.template, repro.variant, settings.memory)
    except NoRepro:
        return ""
    compares = case.failure.fingerprint.stage is Stage.COMPARE
    display.show(Progress(Phase.CONTROLS))
    scratch = Path(tempfile.mkdtemp(prefix="minify-"))
    try:
        limits = Limits(max(settings.timeout or 0.0, _MIN_TIMEOUT_SECONDS), settings.memory)
        (end,) = run_again_if_killed([lambda: _run(script, case.import_path, compares)], limits, scratch, display.tick)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return _result(end)


def _run(script: Repro, path: tuple[str, ...], compares: bool) -> dict[str, Any]:
    """Run the script as an interpreter would. This is done in a child, in a folder of its own."""
    replace_programs_folder(path)
    os.environ.update(script.given)
    script.write(Path.cwd())
    try:
        runpy.run_path("repro.py", run_name="__main__")
    except SystemExit as end:
        return {"how": "passes" if not end.code else f"ends with exit status {end.code}"}
    except BaseException as error:  # noqa: BLE001 - any exception is a result
        inner = backend_error(error)
        if compares and isinstance(inner, AssertionError):
            return {"how": "differs from eager"}
        return {"how": f"raises {type(inner).__name__}"}
    return {"how": "passes"}


def _result(end: ChildEnd) -> str:
    """Describe the result of a run; "" if this tool was at fault."""
    if end.fault:
        return ""
    if end.timed_out:
        return "does not end"
    return "the process dies" if end.result is None else str(end.result["how"])
