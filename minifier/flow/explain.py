"""Find the part at fault in a verified repro, and verify changes that avoid the failure.

The controls tell it first, torch's backends that compile nothing: what fails alike with one of them is a part of torch
ahead of the backend. Then probes ask the compiler.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import runpy
import shutil
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from minifier.data.case import EAGER, BackendReference, BackendSource, Case
from minifier.data.case.literals import WITHOUT, setting_statement
from minifier.data.case.run_folder import RunFolder
from minifier.data.failure import Failure, Kind, Stage, same
from minifier.data.failure.evidence import fatal_signal
from minifier.data.failure.fingerprint import with_native
from minifier.data.failure.frames import is_beside_torch, is_torchs
from minifier.data.failure.normalise import headline, normalise
from minifier.data.failure.observed import status_of_exit
from minifier.data.settings import Settings
from minifier.data.torch_names import FILE_OF_CALLS
from minifier.errors import LimitReached, NoRepro, StoppedEarly, UsageError
from minifier.flow.attempt import Attempt, ReproResult, Run, stopped_if_interrupted
from minifier.flow.folders import asked_there
from minifier.flow.reduce_in_child import in_child, with_threads
from minifier.flow.repro_search import in_place_of, search_for
from minifier.process.child import signal_name
from minifier.process.interpreters import replace_programs_folder
from minifier.process.progress import SILENT, Phase, Progress, Ui
from minifier.reduction.explain import FAKE_KERNEL, OWN_PASS, Change, Explanation, changes_of, explain, with_setting
from minifier.reduction.probe.children import ChildEnd, Limits, run_again_if_killed
from minifier.reduction.summary import ALIKE, Summary
from minifier.repro.emit.repro import Repro, write_repro
from minifier.repro.emit.statements import guard_seconds
from minifier.repro.report.failure_text import is_own_check
from minifier.repro.report.outcome import Outcome
from minifier.repro.report.write_reports import read_finished, write_reports
from minifier.repro.source.reduce_script import ReducedScript
from minifier.torch_side.torch_private.dynamo import INDUCTOR, backend_error

_MIN_TIMEOUT_SECONDS = 60.0
_DYNAMO, _AOT = "Dynamo", "AOTAutograd"
DECOMPOSES = f"{_AOT} with inductor's decompositions and partition"
_PART_OF_CONTROL = {"aot_eager": _AOT, "aot_eager_decomp_partition": DECOMPOSES}
_NO_BACKEND_NEEDED = "The failure needs no backend."
_COMPILES_NOTHING = "The backend compiles nothing."
_IN_EACH_CALL = 'With backend="aot_eager" in each call'
_FILE = re.compile(r'^  File "([^"\n]+)"', re.MULTILINE)


def run_controls(case: Case, repro: Repro, settings: Settings, ui: Ui = SILENT) -> Iterator[tuple[str, str]]:
    """Run the repro of a graph with torch's backends that compile nothing; yield (backend, how it ended).

    No control applies if the failure is only a logged line, or without a backend.
    """
    is_line = case.failure.fingerprint.kind is Kind.SILENT_FALLBACK
    if is_line or repro.template is None or case.is_of_torch:
        return
    for name in _PART_OF_CONTROL if case.backend.name == INDUCTOR else list(_PART_OF_CONTROL)[:1]:
        if not _is_control(case.backend, name) and (how := _run_with(name, case, repro, settings, ui)):
            yield name, how


def part_ahead_of_backend(case: Case, failing_control: str) -> tuple[str, str]:
    """Return the part of torch at fault ahead of the backend, and a sentence that tells why; ("", "") if none is known.

    It is the first with which the failure shows. `failing_control` is "" if no control fails.
    """
    if case.while_tracing or case.backend.expression == EAGER.expression:
        return (_DYNAMO, _NO_BACKEND_NEEDED) if _is_of_torchs_code(case.failure) else ("", "")
    if failing_control:
        return _PART_OF_CONTROL[failing_control], f'With backend="{failing_control}" it fails in the same way.'
    part = next((part for name, part in _PART_OF_CONTROL.items() if _is_control(case.backend, name)), "")
    return part, _COMPILES_NOTHING if part else ""


def part_of_script(
    reduced: ReducedScript, failure: Failure, backend: BackendReference, *, is_checked: bool = False
) -> tuple[str, str]:
    """Return the same for a script that is left, from how it ended without its backends.

    If it `is_checked` against eager mode, its failure is another value, whatever raises for want of the right one.
    """
    if not (is_checked or _is_of_torchs_code(failure)):
        return "", ""
    if reduced.without_backends:
        return _DYNAMO, _NO_BACKEND_NEEDED
    if reduced.in_aot_eager:
        return _AOT, f"{_IN_EACH_CALL} it fails in the same way."
    if reduced.in_aot_eager is False and backend.name == INDUCTOR:
        return INDUCTOR, f"{_IN_EACH_CALL} it does not fail in this way."
    return "", ""


def with_control(case: Case, name: str) -> Case:
    """Return the Case with this backend of torch in the place of its own, whose imports stay."""
    control = BackendReference(name, BackendSource.REGISTERED, f'"{name}"')
    return replace(case, backend=in_place_of(case.backend, control))


def _is_control(backend: BackendReference, name: str) -> bool:
    return backend.expression == f'"{name}"'


def _is_of_torchs_code(failure: Failure) -> bool:
    """Whether torch raises, or computes wrong numbers: not the user's code that it calls, such as a fake kernel."""
    fingerprint = failure.fingerprint
    if fingerprint.stage is Stage.COMPARE or is_own_check(failure):
        return True
    raising = fingerprint.raising
    is_torch = raising is not None and f"{raising.module}.".startswith("torch.")
    return is_torch and not _has_own_code(_FILE.findall(failure.traceback))


def _has_own_code(files: Sequence[str]) -> bool:
    """Whether torch's code calls other code than Python's: the files of the frames, the outermost first.

    A compiled function of the script is called by torch, too: the frames within its innermost call count.
    """
    calls = [number for number, file in enumerate(files) if file.endswith(FILE_OF_CALLS)]
    within = itertools.dropwhile(lambda file: not is_torchs(file), files[calls[-1] if calls else 0 :])
    return any(map(is_beside_torch, within))


def _run_with(name: str, case: Case, repro: Repro, settings: Settings, ui: Ui) -> str:
    """Run the repro with another backend, and describe the result; "" if that is not possible."""
    assert repro.template is not None, "a repro of a graph"
    try:
        script = write_repro(with_control(case, name), repro.template, repro.variant, settings.memory)
    except NoRepro:
        return ""
    ui.show(Progress(Phase.CONTROLS))
    scratch = Path(tempfile.mkdtemp(prefix="minify-"))
    try:
        seconds = max(settings.timeout or 0.0, _MIN_TIMEOUT_SECONDS) + guard_seconds(case)
        limits = Limits(seconds, settings.memory)
        (end,) = run_again_if_killed([lambda: _run(script, case)], limits, scratch, ui.tick)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return end_of_control(end, case.failure)


def _run(script: Repro, case: Case) -> dict[str, Any]:
    """Run the script as an interpreter would. This is done in a child, in a folder of its own."""
    replace_programs_folder(case.import_path)
    os.environ.update(script.given)
    script.write(Path.cwd())
    sys.argv = ["repro.py"]
    try:
        runpy.run_path("repro.py", run_name="__main__")
    except SystemExit as end:
        status = status_of_exit(end.code)
        return {"how": "passes" if not status else f"ends with exit status {status}"}
    except BaseException as error:  # noqa: BLE001 - any exception is a result
        return {"how": ALIKE if _is_alike(error, case.failure) else f"raises {type(backend_error(error)).__name__}"}
    return {"how": "passes"}


def _is_alike(error: BaseException, failure: Failure) -> bool:
    """Whether the control's exception is the failure, and torch's; of a wrong result, the repro's own assertion."""
    inner = backend_error(error)
    if failure.fingerprint.stage is Stage.COMPARE:
        return isinstance(error, AssertionError) and inner is error
    seen = type(inner).__name__, headline(normalise(str(inner)))
    files = [frame.filename for frame in traceback.extract_tb(inner.__traceback__)]
    sought = failure.type.rpartition(".")[2], headline(normalise(failure.message))
    return seen == sought and not _has_own_code(files)


def end_of_control(end: ChildEnd, failure: Failure) -> str:
    """Describe the result of a run; "" if this tool was at fault."""
    if end.fault:
        return ""
    if end.timed_out:
        return "does not end"
    if end.result is None:
        if end.signal is None or end.exhausted:
            return "the process dies"
        death = with_native(fatal_signal(failure.fingerprint.stage, signal_name(end.signal)), end.written)
        return ALIKE if same(failure.fingerprint, death.fingerprint) else "the process dies"
    return str(end.result["how"])


_MIN_SECONDS = 20.0  # for an explanation, however short the reduction was
_MAX_SHARE = 0.5  # of the reduction's seconds, for an explanation


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
    part, reason = _part_at_fault(case, summary, explanation)
    artifacts = explanation.artifacts or summary.artifacts
    summary = replace(summary, explained=explanation.answers, part=part, reason=reason, artifacts=artifacts)
    tried = [each for group in changes_of(case) for each in group if each.line in explanation.changes]
    tried += [Change("", setting_statement(each), with_setting(case, each)) for each in explanation.avoiding]
    with contextlib.suppress(KeyboardInterrupt):
        for change in tried:
            if run.interrupted.is_set() or not run.settings.seconds_left:
                break
            if _passes(attempt, change.case, result.repro):  # it takes a fresh interpreter, so one change is enough
                summary = _with_source_at_fault(summary, change) if change.source else summary
                return replace(summary, workarounds=(change.line,))
    return summary


def _part_at_fault(case: Case, known: Summary, explanation: Explanation) -> tuple[str, str]:
    """Return the part at fault and the reason, the first known one of: a wrong fake kernel; the part of torch ahead of
    the backend, by the controls; what the probes tell, such as which decomposition; what was known before.
    """
    part, reason = part_ahead_of_backend(case, known.failing_control)
    is_fake = explanation.part.startswith(FAKE_KERNEL)
    if explanation.part and (is_fake or part in ("", DECOMPOSES)):
        return explanation.part, f"{explanation.reason} {reason}".strip()
    return (part, reason) if part else (known.part, known.reason)


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


def _passes(attempt: Attempt, case: Case, repro: Repro) -> bool:
    """Tell whether a fresh interpreter runs the Case, in the form of the repro, without any failure."""
    template, variant = repro.form
    try:
        changed = write_repro(case, template, variant, attempt.run.settings.memory)
    except NoRepro:
        return False
    (run,) = search_for(attempt, case).verified(changed, (), runs=1).runs
    return run.failure is None and run.status == 0
