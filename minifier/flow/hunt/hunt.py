"""A hunt: try programs, reduce each failure to a repro, go on until the time is up; write the pages."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import asdict
from pathlib import Path

from minifier.data.case.run_folder import RunFolder, shown_path
from minifier.errors import UsageError
from minifier.flow.attempt import Run
from minifier.flow.embed.reducing import LOG
from minifier.flow.folders import is_running, lock_run
from minifier.flow.foreign_code import foreign_code_in
from minifier.flow.hunt.executors import Executor, Reduction
from minifier.flow.hunt.exploring import HuntOptions
from minifier.flow.hunt.page import write_pages
from minifier.flow.hunt.records import HUNT, Group, Records
from minifier.process.interrupts import deaf
from minifier.process.progress import Phase, Progress, counted

_FIRST_FRACTION = 0.6  # of the time, before the first reduction
_SECONDS_BETWEEN_LOOKS = 0.2
_INTERPRETERS = "2"  # that a repro is verified in
_INTERRUPTED = "interrupted: writing what there is"


def hunt(hunted: HuntOptions, records: Records, run: Run, executor: Executor, seconds: float) -> Records:
    """Try the programs and reduce what fails, and begin nothing new after so many seconds; return what was found.

    The pages are written now and then, and after each reduction. Raises UsageError if the sources have no program, or
    the folder has another hunt.
    """
    was_there, is_new = records.folder.exists(), not (records.folder / HUNT).exists()
    records.begin(asdict(hunted))
    lock_run(records.folder, run)
    try:
        return _run_phases(hunted, records, run, executor, seconds)
    except UsageError:
        if is_new and not Records(records.folder).tried:
            RunFolder(records.folder).clear(keep=was_there)
        raise


def _run_phases(hunted: HuntOptions, records: Records, run: Run, executor: Executor, seconds: float) -> Records:
    """Try programs for a part of the time, and reduce, again and again: what is known may hide something else."""
    begun = time.monotonic()
    until, limit = begun + seconds, begun + _FIRST_FRACTION * seconds
    known = set[int]()
    while True:
        is_complete, records = _explore(hunted, records.folder, run, executor, limit)
        reduced = set[int]()
        if not run.interrupted.is_set():
            reduced = _reduce(hunted, records, run, executor, known, lambda: time.monotonic() < until)
        known |= reduced
        if run.interrupted.is_set() or time.monotonic() > until or (is_complete and not reduced):
            return records
        limit = until


def _explore(hunted: HuntOptions, folder: Path, run: Run, executor: Executor, until: float) -> tuple[bool, Records]:
    """Try programs, and write the pages; return whether all were tried, and what was found."""
    run.ui.show(Progress(Phase.HUNTING, hunted.backend))
    is_complete = False
    try:
        is_complete = executor.explore(hunted, folder, until)
    except KeyboardInterrupt:
        run.interrupt(_INTERRUPTED)
    finally:
        records = Records(folder)
        if records.tried:  # an error may follow
            write_pages(hunted, records)
    if not records.tried:
        if run.interrupted.is_set():
            raise KeyboardInterrupt
        why = "there is no such program: look at SOURCES, --only and --dtypes" if is_complete else "--time is too short"
        raise UsageError(f"nothing was tried: {why}.")
    return is_complete, records


def _reduce(
    hunted: HuntOptions,
    records: Records,
    run: Run,
    executor: Executor,
    known: Collection[int],
    is_time: Callable[[], bool],
) -> set[int]:
    """Reduce what is not reduced yet, the failures of most programs first, several at once; begin none late.

    Of failures that look the same, only a few are begun: what they show may be that of the others as well. Each is a
    `minify reduce`; its log says why there is no repro. `known` are the numbers of groups that were tried before.
    If only those are left, the ones whose time was up go on. Return the numbers of those that were begun.
    """
    still = [group for group in records.groups if not group.is_reduced]
    left = [group for group in still if group.number not in known] or [group for group in still if group.result]
    running: dict[Reduction, Group] = {
        _Earlier(each.folder.path): each for each in left if is_running(each.folder.path)
    }
    begun = {group.number for group in running.values()}
    waiting: list[Group] = []
    for group in sorted(left, key=records.cost, reverse=True):
        is_open = records.cost(group) and group.number not in begun
        if is_open and sum(group.is_like(other) for other in waiting) < executor.slots:
            waiting.append(group)
    waiting.reverse()
    options = ["--no-explain", "--verify", _INTERPRETERS, "--workers", "1", "--timeout", str(run.settings.timeout)]
    try:
        while running or (waiting and is_time()):
            while waiting and len(running) < executor.slots and is_time():
                group = waiting.pop()
                if foreign_code_in(group.folder.path):
                    run.ui.say(f"failure {group.number} is not reduced: its Case is not as your minify wrote it here")
                    continue
                run.ui.say(f"failure {group.number}, {group.kin}: {group.failure.sentence}")
                begun.add(group.number)
                running[executor.start_reducing(group.folder.path, options)] = group
            asked = counted(len(begun) + len(waiting), "failure")
            done = f"reduced {len(begun) - len(running)} of {asked}"
            run.ui.show(Progress(Phase.HUNTING, hunted.backend, done))
            for reduction in [each for each in running if each.poll() is not None]:
                group = running.pop(reduction)
                if not group.folder.repro.exists():
                    run.ui.say(f"failure {group.number} has no repro: {shown_path(group.folder.path / LOG)} says why")
                write_pages(hunted, records)
            run.ui.tick()
            time.sleep(_SECONDS_BETWEEN_LOOKS)
    except KeyboardInterrupt:
        run.interrupt(_INTERRUPTED)
    finally:
        with deaf():
            for reduction in running:
                reduction.end()
    return begun


class _Earlier:
    """A reduction that a killed hunt has begun, and that still runs."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def poll(self) -> int | None:
        return None if is_running(self._folder) else 0

    def end(self) -> None:
        """Leave it alone: it is not ours."""
