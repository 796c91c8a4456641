"""A run, from a failing script or a captured Case to a verified repro: its steps, in their order.

`fallbacks.py` has the attempts that follow a step without a result.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator
from dataclasses import replace
from pathlib import Path

from minifier.capturing.captured import Captured, is_of_torch
from minifier.capturing.find_failures import FoundFailures, run_in_eager, run_script
from minifier.capturing.script import Program
from minifier.capturing.standard_input import StandardInput
from minifier.capturing.terms import Terms
from minifier.case import BackendSource
from minifier.case.store import load
from minifier.errors import NoRepro, NothingToReduce, StoppedEarly
from minifier.process.interpreters import Interpreters
from minifier.process.progress import SILENT, Ui, counted
from minifier.report.environment import EnvironmentCollector
from minifier.report.outcome import Outcome
from minifier.settings import Settings
from minifier.torch_private import INDUCTOR, INDUCTOR_MODULES
from minifier.workflow.attempt import Attempt, FailingCall, Run
from minifier.workflow.choose_failure import call_folder, choose, list_failing
from minifier.workflow.dead_process import take_up
from minifier.workflow.exported_program import as_script, is_exported
from minifier.workflow.fallbacks import Step, fall_back
from minifier.workflow.interrupted_runs import Asked, asked_there, lock_run
from minifier.workflow.keep_case import case_without_graph, keep_call, keep_case
from minifier.workflow.leftovers import is_unfinished
from minifier.workflow.machine import get_ready, prepared, temporary_folder
from minifier.workflow.no_failure import fails_in_eager_too, fails_outside, nothing_failed
from minifier.workflow.reduction import reduce, tell_size, with_memory_limit
from minifier.workflow.reports import report
from minifier.workflow.repro_search import find_repro
from minifier.workflow.run_folder import RunFolder, case_folder, choose_folder, make_folder
from minifier.workflow.whole_script import reduce_to_script


def minify(
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


def minify_each(
    asked: Asked, run: Run, folder: RunFolder, every: bool = False, backend: str = ""
) -> Generator[Outcome, None, None]:
    """Yield the outcome of the first failing call that can be reduced.

    With `every`, yield an outcome for each failing call, in its own sub-folder of `folder`.

    `backend` compiles an exported program. Raises as `minify` does.
    """
    program = asked.program
    with temporary_folder() as work:
        if is_exported(program.target):
            program = as_script(program, backend, work)
        if run.settings.level == "source":
            yield _minify_source(program, folder, run)
            return
        found = capture_failures(program, work, run)
        captured = found.captured
        if captured.failing:
            yield from _minify_failures(found, replace(asked, program=found.program), folder, run, every)
        elif is_of_torch(captured.error, captured.traceback):
            yield _minify_source(program, folder, run, captured)
        else:
            yield _minify_own_failure(program, found, folder, run)


def _minify_own_failure(program: Program, found: FoundFailures, folder: RunFolder, run: Run) -> Outcome:
    """Reduce a script that fails outside of its backend calls, unless eager mode shows the failure too.

    Otherwise raise the error that lists the checks.
    """
    captured = found.captured
    if not fails_outside(captured):
        raise nothing_failed(program, captured, found.compared)
    run.ui.say("no backend call failed, but the script did: running it in eager mode")
    in_eager = run_in_eager(found, run.ui)
    reason = nothing_failed(program, captured, found.compared, in_eager)
    if fails_in_eager_too(captured, in_eager) or not isinstance(reason, NothingToReduce):
        raise reason
    try:
        return _minify_source(program, folder, run, captured)
    except (NothingToReduce, NoRepro) as error:
        raise type(error)(f"{reason}\n{error}") from None


def minify_case(given: Path, run: Run, out: Path | None = None) -> Outcome:
    """Reduce a Case folder, and write a verified repro to `out`.

    Without `out`, the results go into `given` if that is the output folder of a run, or the folder of a process that
    died within `minifier.capture`. Raises as `minify` does.
    """
    with temporary_folder():
        if is_unfinished(given):
            take_up(given.absolute(), run.settings, run.ui)
        case_dir = case_folder(given)
        case = load(case_dir)
        continues = case_dir != given and out is None
        folder = RunFolder(given.absolute()) if continues else choose_folder(out, case.script.name)
        if not continues:
            case = keep_case(case_dir, folder.path)
        lock_run(folder.path)
        run = replace(run, settings=with_memory_limit(run.settings, case))
        return _minify_attempt(Attempt(run, folder, case, asked=asked_there(folder.path) if continues else None))


def capture_failures(program: Program, work: Path, run: Run) -> FoundFailures:
    """Run the script, and find the backend calls that fail."""
    settings = run.settings
    terms = Terms(settings.timeout, settings.memory, settings.match_log, settings.silent_fallbacks)
    program = replace(program, given=StandardInput(work / "stdin"))
    return fall_back(run_script(program, work, terms, run.ui, lambda: get_ready(run.interpreters)), Step.CAPTURE, run)


def _minify_failures(found: FoundFailures, asked: Asked, folder: RunFolder, run: Run, every: bool) -> Iterator[Outcome]:
    """Yield the outcome of the first failing call that can be reduced; with `every`, of each.

    A call cannot be reduced if the program fails without the backend as well.
    """
    chosen = choose(found.captured, asked.graph, every)
    list_failing(run.ui, found.captured.failing, chosen)
    existed = folder.path.exists()
    folder = make_folder(folder)
    candidates = chosen if every or asked.graph is not None else found.captured.failing
    errors: list[NothingToReduce] = []
    for failing in candidates:
        target = RunFolder(call_folder(folder.path, failing, chosen)) if every else folder
        try:
            outcome = _minify_attempt(_attempt_for(FailingCall.of(found, failing), asked, target, run))
        except NothingToReduce as error:
            errors.append(error)
            target.clear(keep=target.path == folder.path)
            if failing is not candidates[-1]:
                run.ui.say(f"graph {failing.number}: {error}")
                run.ui.say("going on with the next failure")
            continue
        yield outcome
        if not every:
            return
        run.ui.restart()  # the next outcome's seconds are its own
    if len(errors) == len(candidates):
        folder.clear(keep=existed)
        raise errors[0]


def _attempt_for(call: FailingCall, asked: Asked, folder: RunFolder, run: Run) -> Attempt:
    """Return the attempt for a failing call, and copy its Case, if saved, to the output folder."""
    call = fall_back(call, Step.CHOOSE, run)
    failing, seconds = call.failing, call.found.captured.seconds
    if call.unsaved:
        run.ui.error(failing.traceback)
        folder.path.mkdir(parents=True, exist_ok=True)
        case = case_without_graph(failing, asked.program.name)
        error = NoRepro(f"its graph cannot be saved: {failing.unsaved}")
        return Attempt(run, folder, case, asked, call, seconds, error=error, fallbacks=call.fallbacks)
    case = keep_call(call, folder, asked)
    if case.backend.name == INDUCTOR:
        run.interpreters.import_ahead(INDUCTOR_MODULES)
    size = f" ({counted(failing.ops, 'op')})" if failing.ops is not None else ""
    run.ui.say(f"graph {failing.number}{size} fails: {failing.sentence}")
    run = replace(run, settings=with_memory_limit(run.settings, case))
    return Attempt(run, folder, case, asked, call, seconds, fallbacks=call.fallbacks)


def _minify_attempt(attempt: Attempt) -> Outcome:
    """Reduce the Case, write and verify a repro, report."""
    run, backend = attempt.run, attempt.case.backend
    attempt.folder.result.unlink(missing_ok=True)  # left by an earlier run in this folder
    if attempt.error is None and backend.reach is BackendSource.NONE:
        attempt = attempt.failed(
            NoRepro(
                f"the backend {backend.name} cannot be imported by a fresh interpreter: {backend.reason}. "
                "Assign it to a global name of a module that can be imported, or register it in one."
            )
        )
    if attempt.error is None:
        attempt = fall_back(reduce(attempt), Step.REDUCE, run)
        tell_size(attempt)
    with contextlib.closing(EnvironmentCollector()) as collector:  # collects while the repro is verified
        try:
            attempt = fall_back(find_repro(attempt), Step.VERIFY, run)
        except (KeyboardInterrupt, StoppedEarly):
            folder = attempt.folder
            raise StoppedEarly(
                f"interrupted while the repro was verified; the reduced Case is in {folder.minimal}, and "
                f"`minify reduce {folder.path}` goes on"
            ) from None
        outcome = report(attempt, collector)  # these reports stay if the user interrupts the last fallback
        ended = fall_back(attempt, Step.END, run)
        return outcome if ended is attempt else report(ended, collector)


def _minify_source(program: Program, folder: RunFolder, run: Run, captured: Captured | None = None) -> Outcome:
    """Reduce the script itself. `captured` is its first run, if any."""
    existed = folder.path.exists()
    folder = make_folder(folder)
    seconds, expected = (captured.seconds, captured.failure) if captured is not None else (0.0, None)
    try:
        with contextlib.closing(EnvironmentCollector()) as collector:
            attempt = reduce_to_script(program, folder, run, expected=expected)
            return report(replace(attempt, capture_seconds=seconds), collector)
    except (NothingToReduce, NoRepro):
        folder.clear(keep=existed)
        raise
