"""Leave out the parts of definitions that a verified repro does not need; its smallest change that passes."""

from __future__ import annotations

import functools
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from minifier.capturing.slicing.cases import definitions_left
from minifier.data.case import Case
from minifier.data.case.store import CASE, load, save
from minifier.data.failure import Kind
from minifier.data.settings import Settings
from minifier.errors import NoRepro, StoppedEarly
from minifier.flow.attempt import Attempt, ReproResult
from minifier.flow.reduce_in_child import add_probes, limited
from minifier.flow.repro_search import search_for
from minifier.process.progress import counted
from minifier.reduction.passes.table import DEFINITIONS
from minifier.reduction.summary import Summary
from minifier.repro.emit.footer import difference
from minifier.repro.emit.repro import Repro, write_repro
from minifier.repro.emit.script_text import split_imports
from minifier.repro.source.spare_definitions import (
    DefinitionsToShorten,
    parts_of,
    shorten_definitions,
)

_INTERRUPTED = "interrupted: leaving out no more of the definitions; press Ctrl-C again to stop at once"
_MIN_SECONDS = 30.0
_FEW_PARTS = 4  # functions, methods, statements and entries that nobody minds reading
_SHOWN_BY_A_RUN = (Kind.EXCEPTION, Kind.SIGNAL, Kind.EXIT, Kind.WRONG_RESULT, Kind.NON_FINITE)


def with_short_definitions(attempt: Attempt) -> Attempt:
    """Return the attempt with a repro that has only the parts of the script's definitions that the failure needs.

    The attempt is unchanged if the parts are few, if all are needed, or if the shorter script is no verified repro.
    """
    result, reduced, settings = attempt.repro_result, attempt.reduced, attempt.run.settings
    if result is None or result.repro is None or reduced is None or reduced.summary.stopped_because:
        return attempt
    if not settings.wants(DEFINITIONS[0]):
        return _noted(attempt, "skipped")
    task = _task(attempt, result.case, result.repro)
    if task is None:
        return attempt
    run = attempt.run
    interrupting = functools.partial(run.interrupt, _INTERRUPTED)
    shorter = shorten_definitions(task, _with_limit(settings, reduced.summary), run.ui, interrupting)
    if shorter is None:
        return attempt
    more = dict(shorter.probes)
    attempt = _summed_up(attempt, probes=add_probes(reduced.summary.probes, {"total": sum(more.values()), **more}))
    if shorter.after < shorter.before:
        said = f"the script's definitions: {counted(shorter.before, 'part')} -> {shorter.after}"
        attempt.run.ui.say(f"{said}; verifying the repro again")
        try:
            again = _verified(attempt, result.case, result.repro, shorter.source)
        except (KeyboardInterrupt, StoppedEarly):
            run.interrupted.set()
            return _noted(attempt, "unfinished")
        if again is None:
            attempt.run.ui.say("the repro keeps all of them: with fewer, fresh interpreters do not show the failure")
            return attempt
        attempt = replace(attempt, repro_result=again)
    return _noted(attempt, "fixpoint" if shorter.is_proved else "unfinished")


def _with_limit(settings: Settings, summary: Summary) -> Settings:
    """Return the settings with the limits that are left, and at most the seconds that the reduction took."""
    settings, most = limited(settings, summary), max(_MIN_SECONDS, summary.seconds)
    return replace(settings, budget=most if settings.budget is None else min(most, settings.budget))


def _task(attempt: Attempt, case: Case, repro: Repro) -> DefinitionsToShorten | None:
    """Return the definitions in the repro; None if they are few, or a run does not show the failure by itself.

    A death says too little of itself: it needs a script that passes, to tell it from the death of other definitions.
    """
    if repro.template is None or repro.beside or repro.given or case.rate < 1.0 or not case.definitions:
        return None
    fingerprint = case.failure.fingerprint
    if fingerprint.kind not in _SHOWN_BY_A_RUN:
        return None
    source = split_imports(definitions_left(case)).source
    if len(parts_of(source).statements) <= _FEW_PARTS or repro.text.count(source) != 1:
        return None
    nearest = nearest_repro(attempt, repro)
    nearest = nearest if nearest.count(source) == 1 else ""
    if not nearest and fingerprint.kind in (Kind.SIGNAL, Kind.EXIT):
        return None
    return DefinitionsToShorten(source, repro.text, fingerprint, case.folders, not repro.template.hides_stage, nearest)


def _verified(attempt: Attempt, case: Case, repro: Repro, short: str) -> ReproResult | None:
    """Verify the repro with these definitions, and write it and the Case to the output folder; None if it fails."""
    before = split_imports(definitions_left(case))
    definitions = "\n".join((*before.future, *before.imports, short))
    search = search_for(attempt, replace(case, definitions=definitions))
    with tempfile.TemporaryDirectory(prefix="minify-repro-") as place:
        again = replace(search, out=Path(place), forms=(repro.form,)).search()
    if again.repro is None:
        return None
    folder = attempt.folder
    again.repro.write(folder.path)
    for case_folder in (folder.minimal, folder.nearest):
        if (case_folder / CASE).exists():
            save(replace(load(case_folder), definitions=definitions), case_folder)
    return again


def _summed_up(attempt: Attempt, **changes: Any) -> Attempt:
    reduced = attempt.reduction
    return replace(attempt, reduced=replace(reduced, summary=replace(reduced.summary, **changes)))


def _noted(attempt: Attempt, end: str) -> Attempt:
    """Note how the pass ended."""
    return _summed_up(attempt, passes={**attempt.reduction.summary.passes, DEFINITIONS[0]: end})


def nearest_repro(attempt: Attempt, repro: Repro) -> str:
    """Return the script of the nearest Case that passes, in the form of the repro; "" if none is known."""
    folder = attempt.folder.nearest
    if repro.template is None or not (folder / CASE).exists():
        return ""
    try:
        return write_repro(load(folder), repro.template, repro.variant, attempt.run.settings.memory).text
    except NoRepro:
        return ""


def nearest_change(attempt: Attempt) -> str:
    """Return the change that makes the repro pass, as a diff; "" if none is known."""
    repro = attempt.repro
    other = nearest_repro(attempt, repro) if repro is not None else ""
    return difference(repro.text, other) if repro is not None and other else ""
