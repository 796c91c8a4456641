"""A hunt: try programs, reduce each failure to a repro, go on until the time is up; write the pages."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import asdict
from pathlib import Path

from minifier.data.case.run_folder import RunFolder, shown_path
from minifier.data.case.store import RESULT
from minifier.errors import UsageError
from minifier.flow.attempt import Run
from minifier.flow.embed.reducing import LOG
from minifier.flow.folders import lock_run
from minifier.flow.foreign_code import foreign_code_in
from minifier.flow.hunt.executors import Executor, Reduction
from minifier.flow.hunt.exploring import HuntOptions
from minifier.flow.hunt.page import write_pages
from minifier.flow.hunt.records import Group, Records
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
    is_new = not records.folder.exists()
    records.begin(asdict(hunted))
    lock_run(records.folder, run)
    try:
        return _run_phases(hunted, records, run, executor, seconds)
    except UsageError:
        if is_new and not Records(records.folder).tried:
            RunFolder(records.folder).clear(keep=False)
        raise


def _run_phases(hunted: HuntOptions, records: Records, run: Run, executor: Executor, seconds: float) -> Records:
    """Try programs for a part of the time, and reduce; if time is left then, try more of them, and reduce again."""
    begun = time.monotonic()
    until, first = begun + seconds, begun + _FIRST_FRACTION * seconds
    is_complete, reduced = False, set[int]()
    for limit in (first, until):
        if time.monotonic() < limit and not is_complete:
            is_complete, records = _explore(hunted, records.folder, run, executor, limit)
        if not run.interrupted.is_set():
            reduced |= _reduce(hunted, records, run, executor, reduced, lambda: time.monotonic() < until)
        if run.interrupted.is_set():
            break
    return records


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

    Each is a `minify reduce`; its log says why there is no repro. `known` are the numbers of
    groups that were tried before. Return those that were begun.
    """
    left = [group for group in records.groups if group.number not in known]
    waiting = [group for group in left if not (group.folder.path / RESULT).exists()]
    begun: set[int] = set()
    waiting.sort(key=records.cost)
    running: dict[Reduction, Group] = {}
    timeout = [] if run.settings.timeout is None else ["--timeout", str(run.settings.timeout)]
    options = ["--no-explain", "--verify", _INTERPRETERS, "--workers", "1", *timeout]
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
            done = len(records.groups) - len(waiting) - len(running)
            run.ui.show(
                Progress(Phase.HUNTING, hunted.backend, f"reduced {done} of {counted(len(records.groups), 'failure')}")
            )
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
