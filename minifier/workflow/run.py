"""A run, from a failing script or a captured Case to a verified repro: its steps, in their order.

`fallbacks.py` has the attempts that follow a step without a result.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

from minifier.capturing.script import Program
from minifier.case.run_folder import RunFolder
from minifier.case.store import load, remove_partial
from minifier.errors import MinifyError, NothingToReduce, StoppedEarly, said_of_trace
from minifier.process.interpreters import Interpreters
from minifier.process.progress import SILENT, Ui
from minifier.report.environment import EnvironmentCollector
from minifier.report.outcome import Outcome
from minifier.settings import Settings
from minifier.workflow.attempt import Attempt, FailingCall, Run
from minifier.workflow.choose_failure import candidates_for, folder_for, list_failing, list_fallbacks, run_observed
from minifier.workflow.choose_folder import case_folder, choose_folder, make_folder
from minifier.workflow.dead_process import take_up
from minifier.workflow.exported_program import as_script
from minifier.workflow.fallbacks import Step, fall_back
from minifier.workflow.interrupted_runs import Asked, asked_there, lock_run
from minifier.workflow.keep_case import begin_with_call, begin_with_case, keep_case
from minifier.workflow.leftovers import is_unfinished
from minifier.workflow.machine import prepared
from minifier.workflow.no_failure import minify_other_failure, minify_source
from minifier.workflow.reduction import reduce, tell_size
from minifier.workflow.reports import report
from minifier.workflow.repro_search import find_repro, told_if_interrupted
from minifier.workflow.short_definitions import with_short_definitions
from minifier.workflow.unverified import keep_unverified
from minifier.workflow.whole_script import lacks_script


def run_program(
    program: Program | Path | str,
    settings: Settings | None = None,
    ui: Ui = SILENT,
    out: Path | None = None,
    graph: int | None = None,
    interpreters: Interpreters | None = None,
) -> Outcome:
    """Run the program, reduce its failing backend call, and write a verified repro to `out`, a new or empty folder.

    `program` is a script's path, or a `Program`, which may have arguments. `out` is by default `minify-out/<name>-<n>`.
    `graph` is the number of the failing graph to reduce, by default the first. `interpreters` starts the interpreters
    of the verification.

    Raises NothingToReduce if neither a backend call nor torch.compile is at fault, UsageError, StoppedEarly for an
    interrupt before there is a result, and MinifyError.
    """
    program = program if isinstance(program, Program) else Program(str(program))
    folder = choose_folder(out, program.name)  # a bad one is refused before anything starts
    with (
        prepared(settings or Settings(), ui, interpreters or Interpreters()) as run,
        contextlib.closing(minify_each(Asked(program, graph), run, folder)) as outcomes,
    ):
        return next(outcomes)


def minify_each(asked: Asked, run: Run, folder: RunFolder, every: bool = False) -> Generator[Outcome, None, None]:
    """Yield the outcome of the first failing backend call that can be reduced.

    A call cannot be reduced if the program fails without the backend as well. With `every`, yield an outcome for each
    failing call, in its own sub-folder of `folder`. Raises as `run_program` does.
    """
    found = run_observed(as_script(asked.program), run)
    if run.settings.level == "source":
        yield minify_source(found, folder, run)
        return
    found = fall_back(found, Step.CAPTURE, run)
    if not found.captured.failing:
        yield minify_other_failure(found, folder, run)
        return
    asked = replace(asked, program=found.program)
    candidates = candidates_for(found.captured, asked.graph)
    list_failing(run.ui, found.captured.failing, candidates if every else candidates[:1])
    list_fallbacks(run.ui, found.compared)
    folder = make_folder(folder)
    errors: list[NothingToReduce] = []
    for failing in candidates:
        place = folder_for(failing, candidates, folder) if every else folder
        run = replace(run, errors=[])
        try:
            call = fall_back(FailingCall.of(found, failing), Step.CHOOSE, run)
            outcome = _minify(begin_with_call(call, asked, place, run))
        except NothingToReduce as error:
            errors.append(error)
            place.clear(keep=not every)
            if failing is not candidates[-1]:
                run.ui.say(f"graph {failing.number}: {error}")
                run.ui.say("going on with the next failure")
        else:
            yield outcome
            if not every:
                return
            run.ui.restart()  # the next outcome's seconds are its own
    if len(errors) == len(candidates):
        folder.clear(keep=folder.was_there)
        raise errors[0]


def minify_case(source: Path, run: Run, out: Path | None = None) -> Outcome:
    """Reduce a Case folder, or go on with the output folder of a run, and write a verified repro.

    The results go to `out`. By default those of an output folder, or of a process that died in `minifier.capture`, stay
    there. Raises as `run_program` does.
    """
    if is_unfinished(source):
        take_up(source.absolute(), run.settings, run.ui)
    case_dir = case_folder(source)
    case = load(case_dir)
    goes_on = case_dir != source and out is None
    folder = RunFolder(source.absolute()) if goes_on else choose_folder(out, case.script.name)
    if not goes_on:
        case = keep_case(case_dir, folder.path)
    lock_run(folder.path, run)
    remove_partial(folder.path)
    folder.result.unlink(missing_ok=True)  # left by an earlier run in this folder
    return _minify(begin_with_case(case, asked_there(folder.path) if goes_on else None, folder, run))


def _minify(attempt: Attempt) -> Outcome:
    """Reduce the Case, write and verify a repro, report."""
    run = attempt.run
    if attempt.error is None:
        with told_if_interrupted(attempt.folder, "interrupted during the reduction"):
            with run.going_on():
                attempt = reduce(attempt)
            if attempt.reduced is None and attempt.error is None:
                attempt = attempt.failed(MinifyError(said_of_trace(run.errors[-1])))
            attempt = fall_back(attempt, Step.REDUCE, run)
        tell_size(attempt)
    with contextlib.closing(EnvironmentCollector()) as collector:  # collects while the repro is verified
        with told_if_interrupted(attempt.folder, "interrupted while the repro was verified"):
            with run.going_on():
                attempt = find_repro(attempt)
            attempt = fall_back(attempt, Step.VERIFY, run)
            with run.going_on():
                attempt = with_short_definitions(attempt)
        with run.going_on():
            keep_unverified(attempt)
        with told_if_interrupted(attempt.folder, "interrupted while the reports were written"):
            outcome = report(attempt, collector)
        try:
            ended = fall_back(attempt, Step.END, run)
        except (KeyboardInterrupt, StoppedEarly):
            run.ui.say("interrupted: the results are those from before")
            return outcome
        if lacks_script(ended):
            run.ui.say("`minify run --level source SCRIPT` reduces the source of the script, where that is at hand")
        if ended is attempt and outcome.errors == tuple(run.errors):
            return outcome
        with told_if_interrupted(attempt.folder, "interrupted while the reports were written"):
            with run.going_on():
                keep_unverified(ended)
            return report(ended, collector)
