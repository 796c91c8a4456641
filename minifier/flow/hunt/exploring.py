"""Try one program after the other, in forks of a process that holds torch, the backend and the sources."""

from __future__ import annotations

import functools
import importlib
import itertools
import os
import re
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from minifier.data.case.store import load
from minifier.data.settings import Settings
from minifier.errors import FailsByItself, MachineFailed, MinifyError, ToolFailed, UsageError
from minifier.flow.embed.function import record_graphs
from minifier.flow.first_failure import first_failure
from minifier.flow.hunt.programs import Program, Wanted
from minifier.flow.hunt.records import Records, Tried
from minifier.flow.hunt.sources import source
from minifier.flow.hunt.trial import Answer, Trial, headline, record_program, try_program
from minifier.process.machine import cores
from minifier.process.progress import SILENT, Phase, Progress, Ui, counted
from minifier.reduction.probe.children import ChildEnd, Limits, run_again_if_killed, tell
from minifier.reduction.probe.prepared_case import preload, threads
from minifier.reduction.probe.verdicts import seen
from minifier.repro.report.privacy import shareable
from minifier.torch_side.fx.tensors import one_thread
from minifier.torch_side.torch_private.dynamo import compiler_for, warm_up_dynamo

DEFAULT_TIMEOUT_SECONDS = 60.0  # of a program
_PROGRAMS_PER_FORK = 8  # most of what a fork costs is its first trace
_LATEST_START = 0.25  # of the time limit: later a fork begins no further program
_RECORDING_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Hunted:
    """What is hunted: a backend, by its registered name or as MODULE:NAME, and the modules that are imported first.

    `sources` are names of sources. An exception whose type or first line matches the regular expression `unsupported`
    says that the backend does not support the program, and is no failure.
    """

    backend: str
    modules: tuple[str, ...]
    sources: tuple[str, ...]
    wanted: Wanted
    unsupported: str | None = None

    def imported(self) -> Any:
        """Import the modules; return what torch.compile takes as the backend.

        Raises UsageError if that is not possible.
        """
        if os.getcwd() not in sys.path:
            sys.path.append(os.getcwd())
        module, _, name = self.backend.rpartition(":")
        try:
            modules = [importlib.import_module(each) for each in (*self.modules, *filter(None, [module]))]
            backend = getattr(modules[-1], name, name) if module else name
            compiler_for(backend, None, None, None)  # raises torch's own error for an unknown name
        except Exception as error:
            raise UsageError(f"the backend {self.backend} cannot be had: {headline(error)}") from error
        return backend


def explore(
    hunted: Hunted,
    records: Records,
    settings: Settings,
    until: float,
    ui: Ui,
    now: Callable[[], float] = time.monotonic,
) -> bool:
    """Try the programs that have no line yet, until the clock says `until`; return whether all have one then.

    Raises UsageError for a backend or a source that cannot be imported, and MachineFailed.
    """
    with tempfile.TemporaryDirectory(prefix="minify-hunt-") as scratch:
        explorer = _Explorer(hunted, records, settings, Path(scratch), ui)
        while now() < until:
            if not explorer.try_some(lambda: now() >= until):
                return True
    return False


class _Explorer:
    def __init__(self, hunted: Hunted, records: Records, settings: Settings, scratch: Path, ui: Ui) -> None:
        self._hunted, self._records, self._settings = hunted, records, settings
        self._scratch, self._ui, self._slots = scratch, ui, settings.workers or cores()
        self._limits = Limits(settings.timeout or DEFAULT_TIMEOUT_SECONDS, settings.memory)
        (looked,) = self._run([self._look_at_import], Limits(_RECORDING_SECONDS))
        if looked.result is None:
            raise UsageError(f"the backend {hunted.backend} cannot be imported: {looked.fault or looked.output}")
        if looked.result["refused"]:
            raise UsageError(looked.result["refused"])
        with one_thread(), tempfile.TemporaryDirectory(dir=scratch) as folder:
            # A fork lacks the threads that an import starts: each imports the backend then.
            self._backend = None if looked.result["threads"] else hunted.imported()
            warm_up_dynamo()
            record_graphs(torch.neg, [torch.zeros(1)], "eager", Path(folder))  # imports much
        self._known = {each.name for each in records.tried}
        self._absent = {(each.subject, each.variant) for each in records.tried if each.answer is Answer.ABSENT}
        self._left = self._programs()

    def _look_at_import(self) -> dict[str, Any]:
        before = threads()
        try:
            self._hunted.imported()
        except UsageError as error:
            return {"refused": str(error), "threads": False}
        return {"refused": "", "threads": threads() > before}

    def _programs(self) -> Iterator[Program]:
        """Yield the programs that have no line yet, but for those beyond the last sample."""
        for name in self._hunted.sources:
            try:
                for made in source(name)(replace(self._hunted.wanted, broken=self._broken())):
                    program = replace(made, source=name)
                    if program.name not in self._known and (program.subject, program.variant) not in self._absent:
                        yield program
            except UsageError:
                raise
            except Exception as error:
                raise UsageError(f"the source {name} fails: {headline(error)}") from error

    def _broken(self) -> frozenset[tuple[str, str]]:
        broken = Answer.FAILS, Answer.UNSUPPORTED
        return frozenset((each.subject, each.variant) for each in self._records.tried if each.answer in broken)

    def try_some(self, is_late: Callable[[], bool]) -> bool:
        """Try the next programs, several in each fork, and write their lines; return whether there were any."""
        count = self._slots * _PROGRAMS_PER_FORK
        with one_thread():  # a source may compute here
            programs = list(itertools.islice(self._left, count))
        batches = deque(programs[place :: self._slots] for place in range(min(self._slots, len(programs))))
        while batches and not is_late():
            now = [batches.popleft() for _ in range(min(self._slots, len(batches)))]
            failures = counted(len(self._records.groups), "failure")
            done = f"{counted(len(self._records.tried), 'program')} tried, {failures}"
            self._ui.show(Progress(Phase.HUNTING, self._hunted.backend, done))
            ends = self._run([functools.partial(self._try_batch, batch) for batch in now], self._limits)
            for batch, end in zip(now, ends, strict=True):
                batches += self._note(batch, end, is_late)
        return bool(programs)

    def _try_batch(self, batch: Sequence[Program]) -> dict[str, Any]:
        """Try programs one after the other in this process, and tell what came of each. Begin none late."""
        until, wanted = time.monotonic() + _LATEST_START * self._limits.seconds, self._hunted.wanted
        for place, program in enumerate(batch):
            tell(begun=place)
            trial = try_program(program, self._in_fork(), wanted.training, wanted.dynamic)
            tell(**{str(place): asdict(trial)})
            torch.compiler.reset()
            if time.monotonic() > until:
                break
        return {}

    def _in_fork(self) -> Any:
        return self._hunted.imported() if self._backend is None else self._backend

    def _note(self, batch: list[Program], end: ChildEnd, is_late: Callable[[], bool]) -> list[list[Program]]:
        """Write the lines of the programs that have an answer; return batches of the others.

        What a program has left in the process may make another one fail: where that is so, each is tried alone.
        """
        trials = {program.name: _trial(end.told[str(n)]) for n, program in enumerate(batch) if str(n) in end.told}
        begun = batch[end.told["begun"]] if "begun" in end.told else None
        if begun is not None and begun.name not in trials and (end.result is None or end.fault):
            ended = seen(end) if not end.fault else None
            reason = ended.sentence if ended is not None else f"an error of minify: {end.fault.splitlines()[-1]}"
            trials[begun.name] = Trial(Answer.FAILS, reason, is_open=True, raised=True)
        if not trials:
            raise ToolFailed(end.fault or f"a fork of the hunt ended without an answer: {end.output}")
        lines: dict[str, Tried] = {}
        for program in batch:
            trial = trials.get(program.name)
            if trial is None or (trial.is_open and is_late()):
                continue
            tried = self._judged(program, trial, is_alone=len(batch) == 1)
            if tried is None:
                return [[each] for each in batch]
            lines[program.name] = tried
        for tried in lines.values():
            self._records.note(tried)
            self._known.add(tried.name)
            if tried.answer is Answer.ABSENT:
                self._absent.add((tried.subject, tried.variant))
        rest = [program for program in batch if program.name not in trials]
        return [rest] if rest else []

    def _judged(self, program: Program, trial: Trial, is_alone: bool) -> Tried | None:
        """Return the line of a program: where the trial is open, its graphs decide.

        None if they are right, and the program raised or ended a process that had tried others.
        """
        line = Tried(program.source, program.subject, program.variant, program.number, trial.answer)
        line = replace(line, reason=shareable(trial.reason))
        pattern = self._hunted.unsupported
        if trial.raised and pattern is not None and re.search(pattern, trial.reason):
            return replace(line, answer=Answer.UNSUPPORTED)
        if not trial.is_open:
            return line
        with tempfile.TemporaryDirectory(dir=self._scratch) as place:
            recorded, work = Path(place) / "recorded", Path(place) / "tried"
            recorded.mkdir()
            job = functools.partial(self._record, program, recorded)
            (made,) = self._run([job], Limits(_RECORDING_SECONDS))
            told = _trial(made.result) if made.result is not None else None
            if told is None or told.answer is not Answer.FAILS:
                why = told.reason if told is not None else "a process that records them ends"
                return _without_graph(line, trial, f"its graphs cannot be recorded: {why}")
            try:
                found = first_failure(recorded, work, self._settings, SILENT)
            except FailsByItself as error:
                return replace(line, answer=Answer.LEFT_OUT, reason=shareable(str(error).splitlines()[0]))
            except MachineFailed:
                raise
            except MinifyError as error:
                return _without_graph(line, trial, str(error))
            if found is None:
                if not trial.raised:
                    return line
                return _without_graph(line, trial, "but no graph does by itself") if is_alone else None
            case = load(found.case)
            group = self._records.group_for(case.failure, program.subject)
            group = group or self._records.add(program, found, case.failure)
            reason = shareable(case.failure.sentence)
            return replace(line, answer=Answer.FAILS, reason=reason, group=group.number)

    def _record(self, program: Program, folder: Path) -> dict[str, Any]:
        wanted = self._hunted.wanted
        return asdict(record_program(program, self._in_fork(), folder, wanted.training, wanted.dynamic))

    def _run(self, jobs: Sequence[Callable[[], dict[str, Any]]], limits: Limits) -> list[ChildEnd]:
        ended = run_again_if_killed(jobs, limits, self._scratch, self._ui.tick)
        for end in ended:
            preload(end.loaded)
        return ended


def _trial(told: dict[str, Any]) -> Trial:
    return Trial(**{**told, "answer": Answer(told["answer"])})


def _without_graph(line: Tried, trial: Trial, why: str) -> Tried:
    reason = "; ".join(filter(None, [trial.reason or "other results than eager's", why]))
    return replace(line, answer=Answer.FAILS, reason=shareable(reason))
