"""Try one program after the other, in forks of a process that holds torch, the backend and the sources."""

from __future__ import annotations

import functools
import importlib
import itertools
import math
import os
import re
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from minifier.data.failure import Kind
from minifier.data.failure.normalise import printable
from minifier.data.settings import Settings
from minifier.data.torch_names import INDUCTOR_MODULES
from minifier.errors import FailsByItself, MinifyError, UsageError
from minifier.flow.embed.function import record_graphs
from minifier.flow.first_failure import first_failure
from minifier.flow.hunt.behind import KnownFaults, known_faults
from minifier.flow.hunt.programs import Program, ProgramFilter
from minifier.flow.hunt.records import ProgramResult, Records, failure_in
from minifier.flow.hunt.scripts import try_script
from minifier.flow.hunt.sources import source
from minifier.flow.hunt.trial import Answer, Trial, call_in_eager, described, record_program, try_program
from minifier.process.machine import cores
from minifier.process.progress import SILENT, Phase, Progress, Ui
from minifier.process.temporary import scratch_folder
from minifier.reduction.probe.children import ChildEnd, Limits, imports_told, run_again_if_killed, tell
from minifier.reduction.probe.prepared_case import preload, threads
from minifier.reduction.probe.verdicts import seen
from minifier.repro.report.privacy import shareable
from minifier.torch_side.fx.tensors import one_thread
from minifier.torch_side.torch_private.dynamo import INDUCTOR, compiler_for, warm_up_dynamo

_TIMEOUT_SECONDS = 60.0  # of a program
_PROGRAMS_PER_FORK = 8  # most of what a fork costs is its first trace
_LATEST_START = 0.25  # of the time limit: later a fork begins no further program
_RECORDING_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class HuntOptions:
    """What is hunted: a backend, by its registered name or as MODULE:NAME, and the modules that are imported first.

    `sources` are names of sources. An exception whose type or first line matches the regular expression `unsupported`
    says that the backend does not support the program, and is no failure.
    """

    backend: str
    modules: tuple[str, ...]
    sources: tuple[str, ...]
    wanted: ProgramFilter
    unsupported: str | None = None

    def imported(self) -> Any:
        """Import the modules; return what torch.compile takes as the backend.

        Raises UsageError if that is not possible.
        """
        module, _, name = self.backend.rpartition(":")
        try:
            modules = [importlib.import_module(each) for each in (*self.modules, *filter(None, [module]))]
            backend = getattr(modules[-1], name, name) if module else name
            compiler_for(backend, None, None, None)  # raises torch's own error for an unknown name
        except Exception as error:
            raise UsageError(f"the backend {self.backend} cannot be had: {described(error)}") from error
        return backend


def explore(
    hunted: HuntOptions,
    records: Records,
    settings: Settings,
    until: float,
    ui: Ui,
    write_pages: Callable[[], None],
) -> bool:
    """Try the programs that have no line yet, until the clock says `until`; return whether all have one by then.

    Calls `write_pages` after each few.

    Raises UsageError for a backend or a source that cannot be imported.
    """
    with scratch_folder("minify-hunt-") as scratch:
        explorer = Explorer(hunted, records, settings, scratch, ui)
        for faults, name in itertools.product((known_faults(records), None), hunted.sources):
            programs = explorer.programs(name, broken(records, name), faults)
            while time.monotonic() < until and (some := explorer.next_of(programs)):
                explorer.try_programs(some, until)
                write_pages()
    return time.monotonic() < until


def broken(records: Records, source: str) -> frozenset[tuple[str, str]]:
    """Return what does not work by itself, as (subject, variant), as far as the sources before this one have shown."""
    before = itertools.takewhile(lambda each: each.source != source, records.tried)
    answers = Answer.FAILS, Answer.UNSUPPORTED
    return frozenset((each.subject, each.variant) for each in before if each.answer in answers)


class Explorer:
    """Tries programs, and writes their lines and the Cases of their failures into `records`; `scratch` is for files.

    Raises UsageError for a backend or a source that cannot be imported.
    """

    def __init__(self, hunted: HuntOptions, records: Records, settings: Settings, scratch: Path, ui: Ui) -> None:
        self.records, self.scratch, self._home, self._path = records, scratch, os.getcwd(), [*sys.path]
        self._hunted, self._settings, self._ui, self._slots = hunted, settings, ui, settings.workers or cores()
        self._limits = Limits(settings.timeout or _TIMEOUT_SECONDS, settings.memory)
        if os.getcwd() not in sys.path:
            sys.path.append(os.getcwd())
        (looked,) = self._run([self._look_at_import], Limits(_RECORDING_SECONDS))
        if looked.result is None:
            raise UsageError(f"the backend {hunted.backend} cannot be imported: {looked.fault or looked.output}")
        if looked.result["refused"]:
            raise UsageError(looked.result["refused"])
        with one_thread():
            # A fork lacks the threads that an import starts: each imports the backend then.
            self._backend = None if looked.result["threads"] else hunted.imported()
            warm_up_dynamo()
        self._has_recorded = False
        self._known: set[tuple[str, tuple[int, ...]]] = set()
        self._absent: dict[tuple[str, str], int] = {}  # the number of the first sample that is not there
        for line in records.lines:
            self.take_in(line)
        with one_thread():
            self._sources = {name: source(name) for name in hunted.sources}

    def _look_at_import(self) -> dict[str, Any]:
        before = threads()
        try:
            self._hunted.imported()
        except UsageError as error:
            return {"refused": str(error), "threads": False}
        return {"refused": "", "threads": threads() > before}

    def programs(
        self, name: str, known: frozenset[tuple[str, str]], faults: KnownFaults | None = None
    ) -> Iterator[Program]:
        """Yield the programs of a source, which may leave out what is `known` to be broken.

        With `faults`, only their programs, with their ops in eager mode. An error of the source's ends them.
        """
        wanted = replace(self._hunted.wanted, broken=known)
        if faults is not None and (wanted.dynamic or not faults.programs):
            return  # dynamic sizes are inputs of a graph, which cannot be called alone
        try:
            programs = (replace(made, source=name) for made in self._sources[name](wanted))
            yield from programs if faults is None else faults.behind(name, programs)
        except UsageError:
            raise
        except Exception as error:  # noqa: BLE001 - of the user's own source
            self._ui.say(f"the source {name} ends here: {described(error)}")

    def next_of(self, programs: Iterator[Program]) -> list[Program]:
        """Return the next programs that have no line, as many as are tried at once."""
        with one_thread():  # a source may compute here
            return list(itertools.islice(filter(self._is_open, programs), self._slots * _PROGRAMS_PER_FORK))

    def _is_open(self, program: Program) -> bool:
        """Whether the program has no line yet, and is not beyond the last sample."""
        first_absent = self._absent.get((program.subject, program.variant), program.number + 1)
        return (program.name, program.behind) not in self._known and program.number < first_absent

    def try_programs(self, programs: Sequence[Program], until: float) -> None:
        """Try programs, several in each fork, and write their lines. Begin nothing once the clock says `until`."""
        programs = list(filter(self._is_open, programs))
        per_fork, limits = _PROGRAMS_PER_FORK, self._limits
        if any(program.script is not None for program in programs):
            per_fork, limits = 1, replace(limits, seconds=math.inf)  # each run of a script has its own limit
            preload(INDUCTOR_MODULES if self._hunted.backend == INDUCTOR else ())
        count = min(max(self._slots, -(-len(programs) // per_fork)), len(programs))
        batches = deque(programs[place::count] for place in range(count))
        while batches and time.monotonic() < until:
            now = [batches.popleft() for _ in range(min(self._slots, len(batches)))]
            self._ui.show(Progress(Phase.HUNTING, self._hunted.backend, self.records.progress))
            ends = self._run([functools.partial(self._try_batch, batch) for batch in now], limits)
            for batch, end in zip(now, ends, strict=True):
                batches += self._note(batch, end, lambda: time.monotonic() > until)

    @imports_told()
    def _try_batch(self, batch: Sequence[Program]) -> dict[str, Any]:
        """Try programs one after the other in this process, and tell what came of each. Begin none late."""
        until, wanted = time.monotonic() + _LATEST_START * self._limits.seconds, self._hunted.wanted
        for place, program in enumerate(batch):
            tell(begun=place)
            if program.script is None:
                trial = try_program(program, self._in_fork(), wanted.training, wanted.dynamic)
            else:
                os.chdir(self._home)
                sys.path[:] = self._path
                settings = replace(self._settings, timeout=self._limits.seconds, compare="always")
                kept = self.scratch / program.subject
                trial = try_script(program, self._hunted.backend, self._hunted.modules, settings, kept)
            tell(**{str(place): asdict(trial)})
            torch.compiler.reset()
            if time.monotonic() > until:
                break
        return {}

    def _in_fork(self) -> Any:
        return self._hunted.imported() if self._backend is None else self._backend

    def _note(self, batch: list[Program], end: ChildEnd, is_late: Callable[[], bool]) -> list[list[Program]]:
        """Write the lines of the programs that have an answer; return batches of those to try again.

        What a program has left in the process may make another one fail: that is tried alone.
        """
        trials = {program.name: _trial(end.told[str(n)]) for n, program in enumerate(batch) if str(n) in end.told}
        begun = batch[end.told["begun"]] if "begun" in end.told else batch[0]
        if begun.name not in trials and (end.result is None or end.fault):
            trials[begun.name] = _ended(end)
        alone: list[list[Program]] = []
        for program in batch:
            trial = trials.get(program.name)
            if trial is None or (trial.is_open and is_late()):
                continue
            line = self._judged(program, trial, is_alone=len(batch) == 1)
            if line is None:
                alone.append([program])
                continue
            self.records.note(replace(line, shows=trial.shows or line.shows))
            self.take_in(line)
        rest = [program for program in batch if program.name not in trials]
        return [*alone, *([rest] if rest else [])]

    def take_in(self, line: ProgramResult) -> None:
        """Note that a program was tried."""
        self._known.add((line.name, line.behind))
        if line.answer is Answer.ABSENT:
            place = line.subject, line.variant
            self._absent[place] = min(line.number, self._absent.get(place, line.number))

    def _judged(self, program: Program, trial: Trial, is_alone: bool) -> ProgramResult | None:
        """Return the line of a program. If its results differ from eager's, or it raised, its graphs decide.

        None asks for a trial in a process of its own: an earlier program of the batch may have made this one raise.
        """
        if program.script is not None:
            return self._line_of_script(program, trial)
        if self._is_unsupported(trial.reason, trial.raised):
            return _line(program, Answer.UNSUPPORTED, trial.reason)
        if not trial.is_open:
            return _line(program, trial.answer, trial.reason) if is_alone or not trial.raised else None
        with tempfile.TemporaryDirectory(dir=self.scratch) as place:
            recorded, work = Path(place) / "recorded", Path(place) / "tried"
            recorded.mkdir()
            self._get_ready_to_record()
            job = functools.partial(self._record, program, recorded)
            limits = Limits(_RECORDING_SECONDS)
            (made,) = self._run([job], limits)
            if made.result is None and self._run([functools.partial(call_in_eager, program)], limits)[0].result is None:
                return _line(program, Answer.LEFT_OUT, "eager mode ends its process too")
            told = _trial(made.result) if made.result is not None else None
            if told is None or told.answer is not Answer.FAILS:
                why = told.reason if told is not None else "a process that records them ends"
                return self._without_graph(program, trial, f"its graphs cannot be recorded: {why}", is_alone)
            try:
                found = first_failure(recorded, work, self._settings, SILENT)
                if found is None and trial.answer is Answer.FAILS and (is_alone or not trial.raised):
                    found = first_failure(recorded, work / "dynamo", self._settings, SILENT, by_dynamo=True)
            except FailsByItself as error:
                return _line(program, Answer.LEFT_OUT, str(error).splitlines()[0])
            except MinifyError as error:
                why = f"its graphs cannot be judged: {str(error).strip().splitlines()[-1]}"
                return self._without_graph(program, trial, why, is_alone)
            if found is None:
                return self._without_graph(program, trial, "", is_alone)
            group = self._group_of(program, found.path, self.records.shown_before(program))
            return _line(program, Answer.FAILS, failure_in(found.path).sentence, group)

    def _group_of(self, program: Program, found: Path, shown_before: Collection[int]) -> int:
        """Return the number of the group of a program's failure, a new one if it is in none."""
        failure = failure_in(found)
        group = self.records.group_for(failure, program.kin, shown_before)
        return (group or self.records.add(program.name, program.kin, found, failure)).number

    def _is_unsupported(self, said: str, raised: bool) -> bool:
        pattern = self._hunted.unsupported
        return raised and pattern is not None and re.search(pattern, said) is not None

    def _line_of_script(self, program: Program, trial: Trial) -> ProgramResult:
        """Return the line of a script, whose failures `try_script` has kept."""
        kept = sorted((self.scratch / program.subject).glob("*"), key=lambda each: int(each.name))
        failures = {each: failure_in(each) for each in kept} if trial.answer is Answer.FAILS else {}
        raised = {each: failure.fingerprint.kind is Kind.EXCEPTION for each, failure in failures.items()}
        own = [each for each in failures if not self._is_unsupported(failures[each].line, raised[each])]
        if not own and (failures or self._is_unsupported(trial.reason, trial.raised)):
            return _line(program, Answer.UNSUPPORTED, trial.reason)
        groups: list[int] = []
        for found in own:
            groups.append(self._group_of(program, found, groups))
        reason = failures[own[0]].sentence if own else trial.reason
        return replace(_line(program, trial.answer, reason, *groups[:1]), shows=tuple(groups[1:]))

    def _without_graph(self, program: Program, trial: Trial, why: str, is_alone: bool) -> ProgramResult | None:
        """Return the line of a program whose graphs are right, or why that cannot be told."""
        if trial.raised and not is_alone:
            return None
        if trial.answer is Answer.FAILS:
            return _line(program, Answer.FAILS, f"{trial.reason}; {why or 'but no graph does by itself'}")
        return _line(program, Answer.LEFT_OUT, why) if why else _line(program, trial.answer, trial.reason)

    def _get_ready_to_record(self) -> None:
        """Import here, once, what a recording imports: that takes seconds, and each fork has it then."""
        if not self._has_recorded:
            self._has_recorded = True
            with one_thread(), tempfile.TemporaryDirectory(dir=self.scratch) as folder:
                record_graphs(torch.neg, [torch.zeros(1)], "eager", Path(folder))

    def _record(self, program: Program, folder: Path) -> dict[str, Any]:
        wanted = self._hunted.wanted
        return asdict(record_program(program, self._in_fork(), folder, wanted.training, wanted.dynamic))

    def _run(self, jobs: Sequence[Callable[[], dict[str, Any]]], limits: Limits) -> list[ChildEnd]:
        ended = run_again_if_killed(jobs, limits, self.scratch, self._ui.tick)
        for end in ended:
            preload(end.loaded)
        return ended


def _trial(told: dict[str, Any]) -> Trial:
    return Trial(**{**told, "answer": Answer(told["answer"]), "shows": tuple(told["shows"])})


def _ended(end: ChildEnd) -> Trial:
    """Return the trial of a program that ended its process."""
    if end.fault:
        return Trial(Answer.LEFT_OUT, f"an error of minify: {end.fault.strip().splitlines()[-1]}")
    failure = seen(end)
    return Trial(Answer.FAILS, failure.sentence if failure is not None else "it ends", is_open=True, raised=True)


def _line(program: Program, answer: Answer, reason: str, group: int = 0) -> ProgramResult:
    """Return what came of a program, for files that are passed on: without private paths and control characters."""
    place = program.source, printable(program.subject, kept=""), program.variant, program.number
    return ProgramResult(*place, answer, printable(shareable(reason), kept=""), group, program.behind)
