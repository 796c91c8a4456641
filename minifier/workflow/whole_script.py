"""Reduce the failing script itself, and verify the script that is left."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from minifier.capturing.script import Program
from minifier.case import EMPTY_GRAPH, BackendReference, BackendSource, Case, Level, Script
from minifier.case.store import save
from minifier.case.transforms import is_of_transform
from minifier.emit.input_source import TENSOR_FILE
from minifier.emit.repro import Repro
from minifier.errors import NoRepro, NothingToReduce
from minifier.failure import Failure
from minifier.settings import Settings
from minifier.source.probe import TIMEOUT_FACTOR, in_eager, seeded
from minifier.source.reduce_script import ReducedScript, reduce_script
from minifier.verify import Conditions, Verification, verify
from minifier.workflow.attempt import Attempt, Reduced, ReproResult, Run
from minifier.workflow.repro_search import with_shown_exception
from minifier.workflow.run_folder import RunFolder

_MIN_TIMEOUT_SECONDS = 120.0
_MAX_TRANSFORM_OPS = 4  # of a graph that is read nevertheless
_NO_BACKEND = BackendReference("torch.compile", BackendSource.NONE)


def reduce_to_script(
    program: Program, folder: RunFolder, run: Run, of_backend: Case | None = None, expected: Failure | None = None
) -> Attempt:
    """Reduce the script. Return the attempt with the reduced script as its repro, or with the reason for no repro.

    `of_backend`, `expected` and the raised errors are as in `reduce_script`.
    """
    reduced = reduce_script(program, folder.path, run.settings, run.ui, of_backend, expected)
    script = Script(program.name, path=reduced.path, folders=reduced.folders)
    backend = of_backend.backend if of_backend is not None else _NO_BACKEND
    failure = reduced.failure
    if of_backend is not None:  # a run of the script does not tell the stage
        stage = of_backend.failure.fingerprint.stage
        failure = replace(failure, fingerprint=replace(failure.fingerprint, stage=stage))
    case = Case(EMPTY_GRAPH, (), backend, failure, script=script, level=Level.SOURCE)
    save(case, folder.minimal)  # records the folders that the import path needs
    attempt = Attempt(run, folder, case, reduced=Reduced(reduced.summary, case, (case,)))
    for text in dict.fromkeys((reduced.text, seeded(reduced.text))):
        repro = Repro(text, None)
        path = repro.write(folder.path)
        check = _verified(path, text, reduced, run)
        if check.holds:
            repro = with_shown_exception(repro, case, check.runs[-1].failure)
            repro.write(folder.path)
            return replace(attempt, repro_result=ReproResult(case, repro, check))
    path.rename(folder.path / "unverified.py")
    showed = f"showed the failure in {check.same} of {len(check.runs)} fresh interpreters"
    if check.passes_in_eager is False:
        showed = "fails without torch.compile too"
    elif (other := check.runs[-1].failure) is not None and check.same < len(check.runs):
        showed += f", the last one showed: {other.line}"
    reason = f"what is left of the script {showed}; it is kept as unverified.py"
    return replace(attempt, repro_result=ReproResult(case, None, check, reason))


def _verified(path: Path, text: str, reduced: ReducedScript, run: Run) -> Verification:
    settings = run.settings
    conditions = Conditions(
        reduced.failure.fingerprint,
        time_limit(settings, reduced),
        reduced.folders,
        match=settings.match,
        memory=settings.memory,
        any_stage=True,
        interpreters=run.interpreters,
    )
    with tempfile.TemporaryDirectory(prefix="minify-repro-") as folder:
        control = Repro(in_eager(text), None).write(Path(folder))
        return verify(path, conditions, control, settings.verify, display=run.ui)


def time_limit(settings: Settings, reduced: ReducedScript) -> float:
    """Return the seconds that an interpreter has for the reduced script: the user's limit, or a multiple of its own."""
    return settings.timeout or max(_MIN_TIMEOUT_SECONDS, TIMEOUT_FACTOR * reduced.slowest_seconds)


def reduce_script_instead(attempt: Attempt, run: Run) -> Attempt:
    """Reduce the script, since no repro of its graph shows the failure. If that fails too, keep the reasons.

    If torch.compile itself failed, with any backend, raises NothingToReduce for a script that fails without it too.
    """
    assert attempt.asked is not None, "a Case from elsewhere has no script"
    of_backend = None if attempt.case.while_tracing else attempt.case
    try:
        by_script = reduce_to_script(attempt.asked.program, attempt.folder, run, of_backend)
    except (NothingToReduce, NoRepro) as error:
        if isinstance(error, NothingToReduce) and of_backend is None:
            raise  # the script fails by itself
        return attempt.failed(NoRepro(f"{attempt.reason}\nThe script itself cannot be reduced instead: {error}"))
    return _in_place_of(attempt, by_script)


def _in_place_of(attempt: Attempt, by_script: Attempt) -> Attempt:
    """Return the attempt on the script with the output folder, the call and the history of the attempt on its graph."""
    seconds, fallbacks = attempt.capture_seconds, attempt.fallbacks
    return replace(by_script, folder=attempt.folder, call=attempt.call, capture_seconds=seconds, fallbacks=fallbacks)


def has_transforms(attempt: Attempt) -> bool:
    """Whether a repro of the graph consists of what torch.func's transforms do, which the script says in a name."""
    if attempt.repro is None or attempt.reduced is None:
        return False
    return sum(map(is_of_transform, attempt.reduced.minimal.graph.ops)) > _MAX_TRANSFORM_OPS


def prefer_short_script(attempt: Attempt, run: Run) -> Attempt:
    """Reduce the script too; return an attempt with what is left of it as the repro if that has fewer lines."""
    assert attempt.asked is not None and attempt.repro is not None, "the row applies to scripts with a repro"
    folder = attempt.folder
    place = RunFolder(folder.empty("script"))
    try:
        by_script = reduce_to_script(attempt.asked.program, place, run, attempt.case)
        repro = by_script.repro
        if repro is None or repro.text.count("\n") >= attempt.repro.text.count("\n"):
            run.ui.say("the graph's repro stays: the script has no shorter one")
            return attempt
        (folder.path / TENSOR_FILE).unlink(missing_ok=True)
        repro.write(folder.path)
        shutil.rmtree(folder.minimal)
        place.minimal.rename(folder.minimal)
    except (NothingToReduce, NoRepro) as error:
        run.ui.say(f"the graph's repro stays: {error}")
        return attempt
    finally:
        shutil.rmtree(place.path)
    return _in_place_of(attempt, by_script)
