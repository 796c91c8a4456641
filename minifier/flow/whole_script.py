"""Reduce the failing script itself, and verify the script that is left."""

from __future__ import annotations

import ast
import contextlib
import functools
import os
import sysconfig
import tempfile
from dataclasses import replace
from pathlib import Path

from minifier.capturing.capture import FoundFailures, capture
from minifier.capturing.captured import Captured
from minifier.capturing.script import Program
from minifier.capturing.script_limits import Terms
from minifier.data.case import EMPTY_GRAPH, BackendReference, BackendSource, Case, Level, Script
from minifier.data.case.literals import packages_imported
from minifier.data.case.run_folder import RunFolder, shown_path
from minifier.data.case.store import save, write_atomically
from minifier.data.failure import Failure, Kind, Stage, same
from minifier.data.settings import Settings
from minifier.data.torch_names import FOLDERS_OF_COMPILE
from minifier.errors import FailsByItself, NoRepro, NothingToReduce, StoppedAtOnce, StoppedEarly
from minifier.flow.attempt import Attempt, Reduced, ReproResult, Run
from minifier.flow.explain import part_of_script
from minifier.flow.folders import Asked, lock_run, make_folder, note_run
from minifier.flow.reduce_in_child import INTERRUPTED
from minifier.flow.reports import report
from minifier.flow.repro_search import ReproSearch, with_shown_failure
from minifier.repro.emit.repro import Repro
from minifier.repro.report.environment import EnvironmentCollector
from minifier.repro.report.outcome import Outcome
from minifier.repro.source.eager_check import CheckedScript
from minifier.repro.source.probe import TIMEOUT_FACTOR
from minifier.repro.source.reduce_script import KnownRun, ReducedScript, as_run, reduce_script, shows_failure_of_call
from minifier.repro.source.run_source import said_of_exit, seeded
from minifier.torch_side.fx.script_objects import FILE

_MIN_TIMEOUT_SECONDS = 120.0
_INSTALLED = ("purelib", "platlib", "stdlib", "platstdlib", "scripts")  # what sysconfig calls the folders
_SHOWN_BY_A_SCRIPT = (Kind.EXCEPTION, Kind.SIGNAL, Kind.EXIT)
_NO_BACKEND = BackendReference("torch.compile", BackendSource.NONE)


def minify_script(
    found: FoundFailures, folder: RunFolder, run: Run, before: str = "", checked: CheckedScript | None = None
) -> Outcome:
    """Reduce the script itself, and report. `found` is what its first run showed.

    A script whose first run failed is kept as unverified.py where there is no repro, with `before` ahead of the reason.
    `checked` is the script that `found` names, if this tool has added a check to it.

    Raises NothingToReduce for a script that fails in eager mode too, and NoRepro for one whose first run did not fail,
    and of which there is no repro: nothing is written then.
    """
    folder, captured, run = make_folder(folder), found.captured, run.in_time(found.captured.seconds)
    note_run(folder.path, Asked(found.program))
    lock_run(folder.path, run)
    has_failed, backend = captured.failure is not None, _named_backend(captured)
    try:
        with contextlib.closing(EnvironmentCollector()) as collector:
            attempt, reason = None, "minify failed as it reduced the script"
            try:
                with run.going_on() if has_failed else contextlib.nullcontext():
                    attempt = reduce_to_script(found.program, folder, run, backend, captured=captured, checked=checked)
            except NoRepro as error:
                reason = str(error)
            if not has_failed and (attempt is None or attempt.repro is None):
                raise NoRepro(attempt.reason if attempt is not None else reason)
            attempt = attempt or _without_repro(found, folder, run, f"{before}{reason}")
            return report(replace(attempt, capture_seconds=captured.seconds, fallbacks=found.fallbacks), collector)
    except (NoRepro, NothingToReduce):
        folder.clear(keep=folder.was_there)
        raise


def _named_backend(captured: Captured) -> BackendReference:
    """Return the backend whose call ended the script; also the only one, if the script failed outside of Dynamo."""
    failure, trace = captured.failure, captured.traceback
    for failing in captured.failing:
        is_end = failure is not None and shows_failure_of_call(failing.failure.fingerprint, failure.fingerprint)
        if is_end:
            return failing.reference
    is_outside = bool(trace) and not any(folder in trace for folder in FOLDERS_OF_COMPILE)
    if is_outside and len(captured.backends) == 1:
        return BackendReference(captured.backends[0], BackendSource.NONE)
    return _NO_BACKEND


def _without_repro(found: FoundFailures, folder: RunFolder, run: Run, reason: str) -> Attempt:
    captured = found.captured
    assert captured.failure is not None, "there is something to report"
    if not is_command(found.program):
        write_atomically(folder.unverified, as_run(found.program))
        reason += f"\nThe script is kept as {folder.unverified.name}"
    script = Script(found.program.name, seconds=captured.seconds, graphs=captured.graphs)
    case = Case(EMPTY_GRAPH, (), _named_backend(captured), captured.failure, script=script, level=Level.SOURCE)
    return Attempt(run, folder, case, error=NoRepro(reason))


def reduce_to_script(
    program: Program,
    folder: RunFolder,
    run: Run,
    backend: BackendReference,
    of_backend: Case | None = None,
    captured: Captured | None = None,
    checked: CheckedScript | None = None,
) -> Attempt:
    """Reduce the script. Return the attempt with the reduced script as its repro, or with the reason for no repro.

    The reports name `backend`. `captured` is the script's first run, if known; `of_backend` and the raised errors are
    as in `reduce_script`. `checked` is the script, if this tool has added a check to it.
    """
    reduced = _reduced(program, folder, run, of_backend, captured, checked)
    seconds = captured.seconds if captured is not None else of_backend.script.seconds if of_backend is not None else 0.0
    script = Script(program.name, path=reduced.path, folders=reduced.folders, seconds=seconds)
    if checked is not None:
        script = replace(script, sight=str(checked.sight))
    failure, first = reduced.failure, captured.failure if captured is not None else None
    if first is not None and same(first.fingerprint, failure.fingerprint):
        failure = replace(failure, traceback=first.traceback)  # with the script's own lines and name
    else:
        failure = replace(failure, traceback=failure.traceback.replace(f'"{FILE}"', f'"{program.name}"'))
    if of_backend is not None:  # a run of the script does not tell the stage
        stage = of_backend.failure.fingerprint.stage
        failure = replace(failure, fingerprint=replace(failure.fingerprint, stage=stage))
    if failure.fingerprint.kind is Kind.EXIT and (where := said_of_exit(reduced.source)):
        failure = replace(failure, message=f"{failure.fingerprint.message} {where}")
    # The repro imports from the script's folders, which `script` has.
    backend = _NO_BACKEND if reduced.without_backends else replace(backend, folders=())
    case = Case(EMPTY_GRAPH, (), backend, failure, script=script, level=Level.SOURCE)
    save(case, folder.minimal)  # records the folders that the import path needs
    part, reason = part_of_script(reduced, failure, backend, is_checked=checked is not None)
    summary = replace(reduced.summary, part=part, reason=reason)
    attempt = Attempt(run, folder, case, reduced=Reduced(summary, case, case))
    run.errors.extend(reduced.errors)
    reduced_text = reduced.source
    with run.going_on():
        reduced_text = reduced.text(backend)
    patient = replace(run, settings=replace(run.settings, deadline=None))  # a script that takes long gets its time
    search = ReproSearch(
        replace(case, failure=reduced.failure), folder.path, time_limit(run.settings, reduced), patient
    )
    for text in dict.fromkeys((reduced_text, seeded(reduced_text))):
        repro, check = Repro(text, None), None
        write_atomically(folder.unverified, text)
        try:
            with run.going_on():
                check = search.verified(repro, None, run.settings.verify, search.control(repro))
        except KeyboardInterrupt:
            error = StoppedAtOnce if run.interrupted.is_set() else StoppedEarly
            raise error(
                f"interrupted while the script was verified; it is kept as {shown_path(folder.unverified)}; "
                "`minify run` begins again"
            ) from None
        if check is None:
            break
        if check.holds:
            repro = with_shown_failure(repro, case, check.runs[-1].failure)
            repro.write(folder.path)
            folder.unverified.unlink()
            return replace(attempt, repro_result=ReproResult(case, repro, check))
    if check is None:
        reason = f"minify failed as it verified what is left of the script; it is kept as {folder.unverified.name}"
        return replace(attempt, repro_result=ReproResult(case, None, None, reason))
    showed = f"showed the failure in {check.same} of {len(check.runs)} fresh interpreters"
    if check.passes_in_eager is False:
        showed = "fails without torch.compile too"
    elif (other := check.runs[-1].failure) is not None and check.same < len(check.runs):
        showed += f", the last one showed: {other.line}"
    reason = f"what is left of the script {showed}; it is kept as {folder.unverified.name}"
    return replace(attempt, repro_result=ReproResult(case, None, check, reason))


def is_command(program: Program) -> bool:
    """Whether the program is installed and has nothing to do with torch itself, as pytest or a console script."""
    file, schemes = program.file, (sysconfig.get_default_scheme(), sysconfig.get_preferred_scheme("user"))
    folders = [Path(sysconfig.get_path(name, scheme)).resolve() for scheme in schemes for name in _INSTALLED]
    is_installed = bool(file) and any(folder in Path(file).resolve().parents for folder in folders)
    return is_installed and "torch" not in packages_imported(program.source())


def named_code(source: str) -> list[str]:
    """Return the Python files that texts in the script name, also as `test_models.py::test_sum`."""
    texts = (node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant))
    files = dict.fromkeys(text.partition("::")[0] for text in texts if isinstance(text, str) and "\0" not in text)
    return [file for file in files if file.endswith(".py") and os.path.isabs(file) and os.path.isfile(file)]


def _reduced(
    program: Program,
    folder: RunFolder,
    run: Run,
    of_backend: Case | None,
    captured: Captured | None,
    checked: CheckedScript | None,
) -> ReducedScript:
    """Reduce the script. Raises FailsByItself only for a script that fails in eager mode in its own folder too.

    Raises NoRepro for a script that does not have what it runs.
    """
    if program.is_redirected:
        raise NoRepro(
            f"what compiles {program.said} is said outside of it; written into the script, {program.backend} can be "
            "reduced with it"
        )
    if is_command(program):
        raise NoRepro(
            f"{program.said} is an installed command, whose source has nothing of what it runs. To reduce that, put it "
            "into a script and give the script: of a test, its module, with a call of the test at the end"
        )
    try:
        known, interrupt = KnownRun(), functools.partial(run.interrupt, INTERRUPTED)
        if captured is not None:
            known = KnownRun(captured.failure, captured.seconds, captured.path)
        if checked is not None:
            known = replace(known, check=checked.check, further=checked.further)
        reduced = reduce_script(program, folder.path, run.settings, run.ui, of_backend, known, interrupt)
        if left := named_code(reduced.source):
            raise NoRepro(f"what is left of the script runs {', '.join(left)}, which is not in it; its code has to be")
        return reduced
    except FailsByItself as error:
        by_itself = error
    if checked is not None:
        raise NoRepro(f"the check that was added to it does not hold in eager mode: {by_itself}")
    if _fails_in_eager(program, run):
        raise by_itself
    raise NoRepro(f"{by_itself}\nThat is so in an empty folder only, as for a reduction of its source")


def _fails_in_eager(program: Program, run: Run) -> bool:
    """Whether the script, run as the user runs it, fails with torch.compile in eager mode too."""
    run.ui.say(f"running {program.said} in eager mode, in its own folder")
    terms = Terms(run.settings.timeout, run.settings.memory, in_eager=True)
    with tempfile.TemporaryDirectory(prefix="minify-") as place:
        return capture(program, Path(place) / "in-eager", terms, run.ui).failure is not None


def time_limit(settings: Settings, reduced: ReducedScript) -> float:
    """Return the seconds that an interpreter has for the reduced script: the user's limit, or a multiple of its own.

    An interpreter has a minute in any case (`ReproSearch`).
    """
    return settings.timeout or max(_MIN_TIMEOUT_SECONDS, TIMEOUT_FACTOR * reduced.slowest_seconds)


def reduce_script_instead(attempt: Attempt) -> Attempt:
    """Reduce the script, since no repro of its graph shows the failure. If that fails too, keep the reasons.

    A wrong result shows by the script's own failure. If torch.compile itself failed, with any backend, raises
    NothingToReduce for a script that fails without it too.
    """
    expected = _own_failure(attempt)
    of_backend = None if attempt.case.while_tracing or expected is not None else attempt.case
    captured = attempt.call.found.captured if attempt.call is not None else None
    if captured is not None and expected is not None:
        captured = replace(captured, failure=expected)
    backend = _NO_BACKEND if attempt.case.while_tracing else attempt.case.backend
    try:
        again = reduce_to_script(attempt.program, attempt.folder, attempt.run, backend, of_backend, captured)
    except (NothingToReduce, NoRepro) as error:
        if isinstance(error, NothingToReduce) and attempt.case.while_tracing:
            raise  # the script fails by itself
        reason = f"{attempt.reason}\nThe script itself cannot be reduced instead: {error}"
        return replace(attempt, error=NoRepro(reason))
    if again.repro is None and attempt.reduced is not None:
        return replace(attempt, error=NoRepro(f"{attempt.reason}\nNor is there one of the script: {again.reason}"))
    return replace(again, call=attempt.call, capture_seconds=attempt.capture_seconds, fallbacks=attempt.fallbacks)


def is_of_script(attempt: Attempt) -> bool:
    """Whether a run of the captured script by itself can show the failure."""
    asked, kind = attempt.asked, attempt.case.failure.fingerprint.kind
    is_shown = kind in _SHOWN_BY_A_SCRIPT or _own_failure(attempt) is not None
    return asked is not None and not asked.program.is_redirected and is_shown


def _own_failure(attempt: Attempt) -> Failure | None:
    """Return how a script with a wrong result failed by itself, by its own check of the result say; None otherwise."""
    is_wrong = attempt.case.failure.fingerprint.stage is Stage.COMPARE
    return attempt.call.found.own_failure if is_wrong and attempt.call is not None else None


def lacks_script(attempt: Attempt) -> bool:
    """Whether no repro of the graph was found, and the script, which is not known, might show the failure."""
    kind = attempt.case.failure.fingerprint.kind
    return attempt.repro is None and attempt.asked is None and kind in _SHOWN_BY_A_SCRIPT
