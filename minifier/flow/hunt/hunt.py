"""A hunt: try programs, reduce each distinct failure to a repro, go on until the time is up; write the page."""

from __future__ import annotations

import time
from dataclasses import replace
from threading import Event

from minifier.data.case.store import RESULT
from minifier.errors import MinifyError, UsageError
from minifier.flow.attempt import Run
from minifier.flow.hunt.exploring import Hunted, explore
from minifier.flow.hunt.page import write_pages
from minifier.flow.hunt.records import Group, Records
from minifier.flow.run import minify_case
from minifier.process.progress import Phase, Progress, ProgressPipe, run_for_result

_FIRST_SHARE = 0.6  # of the time, before the first reduction


def hunt(hunted: Hunted, records: Records, run: Run, seconds: float) -> Records:
    """Try the programs and reduce what fails for about so many seconds; return what was found.

    The pages are written whenever there is something new. Raises UsageError if the sources have no program.
    """
    begun = run.ui.begun
    until = begun + seconds
    share = begun + _FIRST_SHARE * seconds
    reduced: set[int] = set()
    while True:
        is_complete, records = _explored(hunted, records, run, share)
        if not records.tried:
            raise UsageError("there is no such program: look at SOURCES, --only and --dtypes.")
        write_pages(hunted, records)
        for group in sorted(records.groups, key=records.cost, reverse=True):
            if group.number not in reduced and time.monotonic() < until and not run.interrupted.is_set():
                reduced.add(group.number)
                _reduce(group, run, until)
                write_pages(hunted, records)
        if is_complete or time.monotonic() >= until or run.interrupted.is_set():
            return records
        share = until


def _explored(hunted: Hunted, records: Records, run: Run, until: float) -> tuple[bool, Records]:
    """Explore in a forked process: imports of the user's, and of torch's tests, stay in it."""

    def work(channel: ProgressPipe) -> bool:
        return explore(hunted, Records(records.folder), run.settings, until, channel)

    run.ui.show(Progress(Phase.HUNTING, hunted.backend))
    is_complete, end = run_for_result(work, run.ui)
    if end.interrupted:
        run.interrupt("interrupted: writing what there is")
    return bool(is_complete), Records(records.folder)


def _reduce(group: Group, run: Run, until: float) -> None:
    """Reduce the failure of a group in its folder, if that is not done; say why, if that is not possible."""
    if (group.folder.path / RESULT).exists():
        return
    own = replace(run, errors=[], interrupted=Event())
    run.ui.say(f"failure {group.number}, {group.subject}: {group.failure.sentence}")
    run.ui.restart()
    try:
        minify_case(group.folder.path, own)
    except MinifyError as error:
        run.ui.say(f"failure {group.number} is not reduced: {error}")
    if own.interrupted.is_set():
        run.interrupted.set()
