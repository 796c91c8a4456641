"""A run, from a failing script to a verified repro.

The steps: `run_observed` captures; `look_further` runs the script again where that may show more (compared with eager,
other calls compiled, kernels one by one); `failing_calls` and `call_to_reduce` choose a failing call; `through_starts`
reduces, writes and verifies, by further rows of `starts.py` if the first lead to no repro; `report` asks what is at
fault, and writes. A run that has a Case, of a folder or of an interrupted run, begins with `minify_case`.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from threading import Event

import libcst as cst

from minifier.capturing.capture import FoundFailures, should_compare
from minifier.capturing.script import Program
from minifier.data.case.run_folder import RunFolder
from minifier.data.case.store import load, remove_partial
from minifier.data.failure import Kind
from minifier.data.settings import Settings
from minifier.errors import FailsByItself, NoRepro, NothingToReduce
from minifier.flow.attempt import Attempt, Run, stopped_if_interrupted
from minifier.flow.check_program import as_script
from minifier.flow.first_failure import take_up
from minifier.flow.folders import (
    Asked,
    asked_there,
    case_folder,
    choose_folder,
    is_unfinished,
    lock_run,
    make_folder,
    script_there,
)
from minifier.flow.keep_case import (
    begin_with_call,
    begin_with_case,
    call_to_reduce,
    failing_calls,
    folder_for,
    keep_case,
    list_failing,
    list_fallbacks,
    look_further,
    run_observed,
    without_failing,
)
from minifier.flow.no_failure import minify_other_failure, minify_source
from minifier.flow.prepare import prepared
from minifier.flow.reports import report
from minifier.flow.short_definitions import with_short_definitions
from minifier.flow.starts import through_starts
from minifier.flow.whole_script import lacks_script
from minifier.process.interpreters import Interpreters
from minifier.process.progress import SILENT, Ui
from minifier.repro.emit.forms import forms_for
from minifier.repro.emit.repro import write_repro
from minifier.repro.report.environment import EnvironmentCollector
from minifier.repro.report.outcome import Outcome
from minifier.repro.report.write_reports import remove_script


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
        contextlib.closing(minify_each(Asked(program, graph), replace(run, in_own_process=False), folder)) as outcomes,
    ):
        return next(outcomes)


def minify_each(asked: Asked, run: Run, folder: RunFolder, every: bool = False) -> Generator[Outcome, None, None]:
    """Yield the outcome of the first failing backend call that can be reduced.

    A call cannot be reduced if the program fails without the backend as well. With `every`, yield an outcome for each
    failing call, in its own sub-folder of `folder`. Raises as `run_program` does.
    """
    found = run_observed(as_script(asked.program), run)
    run.errors.extend(found.captured.slips)
    if run.settings.level == "source":
        yield minify_source(found, folder, run)
        return
    yield from _minify_calls(asked, look_further(found, run), run, folder, every)


def _minify_calls(
    asked: Asked, found: FoundFailures, run: Run, folder: RunFolder, every: bool
) -> Generator[Outcome, None, None]:
    if not found.captured.failing:
        yield minify_other_failure(found, folder, run)
        return
    asked = replace(asked, program=found.program)
    calls = failing_calls(found.captured, asked.graph)
    list_failing(run.ui, found.captured.failing, calls if every else calls[:1])
    list_fallbacks(run.ui, found.compared)
    folder = make_folder(folder)
    errors: list[NothingToReduce] = []
    for failing in calls:
        place = folder_for(failing, calls, folder) if every else folder
        own = replace(run, errors=[*found.captured.slips], interrupted=Event())
        try:
            call = call_to_reduce(found, failing, own)
            outcome = _minify(begin_with_call(call, asked, place, own))
        except NothingToReduce as error:
            errors.append(error)
            place.clear(keep=not every)
            if len(calls) > 1:
                run.ui.say(f"graph {failing.number}: {error}")
            if failing is not calls[-1]:
                run.ui.say("going on with the next failure")
        else:
            yield outcome
            if not every or own.interrupted.is_set():
                return
            run.ui.restart()  # the next outcome's seconds are its own
    if len(errors) == len(calls):
        folder.clear(keep=folder.was_there)
        # A script that catches what its graphs raise by themselves may see other values than in eager mode.
        if {*map(type, errors)} == {FailsByItself} and found.compared is None and asked.graph is None:
            others = without_failing(found, calls)
            if others.captured.failure is None and should_compare(others, run.settings):
                run.ui.say("the script goes on after that: what else it computes is compared with eager mode")
                others = without_failing(look_further(others, run), calls)
                with contextlib.suppress(NothingToReduce):
                    yield from _minify_calls(asked, others, run, folder, every)
                    return
        raise errors[0]


def minify_case(source: Path, run: Run, out: Path | None = None) -> Outcome:
    """Reduce a Case folder, or go on with the output folder of a run, and write a verified repro.

    The results go to `out`. By default those of an output folder, or of a process that died in `minifier.capture`, stay
    there. Raises as `run_program` does.
    """
    if is_unfinished(source):
        take_up(source.absolute(), run.settings, run.ui)
    if (script := script_there(source)) is not None:
        place = RunFolder(source.absolute()) if out is None else choose_folder(out, script.program.name)
        return minify_source(run_observed(as_script(script.program), run), place, run)
    case_dir = case_folder(source)
    case = load(case_dir)
    goes_on = case_dir != source and out is None
    folder = RunFolder(source.absolute()) if goes_on else make_folder(choose_folder(out, case.script.name))
    if not goes_on:
        case = keep_case(case_dir, folder.path)
    lock_run(folder.path, run)
    remove_partial(folder.path)
    folder.result.unlink(missing_ok=True)  # left by an earlier run in this folder
    return _minify(begin_with_case(case, asked_there(folder.path) if goes_on else None, folder, run))


def _minify(attempt: Attempt) -> Outcome:
    """Reduce the Case, write and verify a repro, report."""
    hangs = attempt.case.failure.fingerprint.kind is Kind.TIMEOUT  # the wait for that is no time of the script's
    run = attempt.run.in_time(max(attempt.case.script.seconds, 0.0 if hangs else attempt.capture_seconds))
    attempt = replace(attempt, run=run)
    with contextlib.closing(EnvironmentCollector()) as collector:
        with stopped_if_interrupted(attempt):
            attempt = run.after(with_short_definitions, through_starts(attempt))
        if lacks_script(attempt):
            run.ui.say("`minify run --level source SCRIPT` reduces the source of the script, where that is at hand")
        with stopped_if_interrupted(attempt):
            with run.going_on():
                keep_unverified(attempt)
            return report(attempt, collector)


def keep_unverified(attempt: Attempt) -> None:
    """Write unverified.py for an attempt without a repro: the first script that was tried, else one of the whole Case.

    The files that it reads go with it. Remove unverified.py once there is a repro, else a repro of an earlier run.
    """
    folder = attempt.folder
    path = folder.unverified
    if attempt.repro is not None:
        remove_script(path, attempt.repro.beside)
    elif not path.exists():
        remove_script(folder.repro)
        tried = folder.attempts / "repro-1"
        with tempfile.TemporaryDirectory(prefix="minify-repro-") as place:
            script = tried if tried.exists() else _script_of_case(attempt, Path(place))
            for file in script.iterdir() if script is not None else ():
                shutil.copyfile(file, path if file.suffix == ".py" else folder.path / file.name)


def _script_of_case(attempt: Attempt, place: Path) -> Path | None:
    """Write a script of the captured Case in the form that is the best to read; None if there is none."""
    for form in forms_for(attempt.case)[:1] if attempt.case.graph.nodes else ():
        try:
            write_repro(attempt.case, *form, attempt.run.settings.memory).write(place)
        except (NoRepro, cst.ParserSyntaxError):  # the latter of a Case that somebody has edited
            return None
        return place
    return None
