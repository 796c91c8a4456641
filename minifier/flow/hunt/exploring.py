"""Try one program after the other, each in forks of a process that holds torch, the backend and the sources."""

from __future__ import annotations

import functools
import importlib
import itertools
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from minifier.data.case.store import load
from minifier.data.settings import Settings
from minifier.errors import FailsByItself, NoRepro
from minifier.flow.embed.function import record_graphs
from minifier.flow.first_failure import first_failure
from minifier.flow.hunt.programs import Program, Wanted
from minifier.flow.hunt.records import Group, Records, Tried
from minifier.flow.hunt.sources import source
from minifier.flow.hunt.trial import OTHER_RESULTS, Answer, Told, record_program, told, try_program
from minifier.process.progress import SILENT, Phase, Progress, Ui, counted
from minifier.reduction.probe.children import ChildEnd, Limits, run_again_if_killed, tell
from minifier.reduction.probe.prepared_case import preload
from minifier.reduction.probe.verdicts import seen
from minifier.torch_side.torch_private.dynamo import warm_up_dynamo

_SECONDS = 60.0  # for a program, without a limit of the user's
_TOGETHER = 8  # programs that one process tries: most of what a process takes is to begin
_SHARE = 0.25  # of its time, after which it begins no further program


@dataclass(frozen=True, slots=True)
class Hunted:
    """What is hunted: a backend, by its registered name or as MODULE:NAME, and the modules that are imported first.

    `sources` are names of sources. An exception whose type or message matches the regular expression `unsupported` says
    that the backend does not support the program, and is no failure.
    """

    backend: str
    modules: tuple[str, ...]
    sources: tuple[str, ...]
    wanted: Wanted
    unsupported: str | None = None

    @property
    def imported(self) -> list[str]:
        """The modules to import, that of the backend last."""
        return [*self.modules, *filter(None, [self.backend.rpartition(":")[0]])]


def imported_backend(hunted: Hunted) -> Any:
    """Import the modules; return what torch.compile takes as the backend."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
    modules = [importlib.import_module(each) for each in hunted.imported]
    module, _, name = hunted.backend.rpartition(":")
    return getattr(modules[-1], name, name) if module else name


def explore(
    hunted: Hunted,
    records: Records,
    settings: Settings,
    until: float,
    ui: Ui,
    now: Callable[[], float] = time.monotonic,
) -> bool:
    """Try the programs that have no line yet, until the clock says `until`; return whether all have one then."""
    backend = imported_backend(hunted)
    warm_up_dynamo()
    scratch = Path(tempfile.mkdtemp(prefix="minify-hunt-"))
    try:
        explorer = _Explorer(hunted, backend, records, settings, scratch, ui)
        while now() < until:
            if not explorer.try_some():
                return True
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return False


class _Explorer:
    def __init__(
        self, hunted: Hunted, backend: Any, records: Records, settings: Settings, scratch: Path, ui: Ui
    ) -> None:
        self._hunted, self._backend, self._records = hunted, backend, records
        self._settings, self._scratch, self._ui = settings, scratch, ui
        self._limits = Limits(settings.timeout or _SECONDS, settings.memory)
        self._left = self._programs()
        self._known = {each.name for each in records.tried}

    def _programs(self) -> Iterator[Program]:
        """Yield the programs, but for those beyond the last sample."""
        for name in self._hunted.sources:
            for program in source(name)(self._hunted.wanted):
                kind = program.subject, program.variant
                if all(
                    (each.subject, each.variant) != kind or each.answer is not Answer.ABSENT
                    for each in self._records.tried
                ):
                    yield program

    def try_some(self) -> bool:
        """Try the next programs, several in each process, and write their lines; return whether there were any."""
        fresh = (program for program in self._left if program.name not in self._known)
        slots = self._settings.workers or os.cpu_count() or 1
        shares = [share for _ in range(slots) if (share := list(itertools.islice(fresh, _TOGETHER)))]
        failures = counted(len(self._records.groups), "distinct failure")
        done = f"{counted(len(self._records.tried), 'program')} tried, {failures}"
        self._ui.show(Progress(Phase.HUNTING, self._hunted.backend, done))
        ends: list[ChildEnd] = []
        while shares:
            ends = self._run([functools.partial(self._try_share, share) for share in shares])
            # A program that ends its process, or takes long, leaves others of its share untried.
            shares = [left for share, end in zip(shares, ends, strict=True) if (left := self._note(share, end))]
        return bool(ends)

    def _try_share(self, share: Sequence[Program]) -> Told:
        """Try programs one after the other in this process, and tell what came of each. Begin none late."""
        imports = [f"import {module}" for module in self._hunted.imported]
        until = time.monotonic() + _SHARE * self._limits.seconds
        for program in share:
            tell(**{program.name: try_program(program, self._backend, imports, self._hunted.wanted.training)})
            torch.compiler.reset()
            if time.monotonic() > until:
                break
        return {}

    def _note(self, share: Sequence[Program], end: ChildEnd) -> list[Program]:
        """Write the lines of the programs that have an answer, and of the one that ended the process, if any.

        Return the others.
        """
        left = list(share)
        while left and left[0].name in end.told:
            self._write(left.pop(0), end.told, end)
        if left and (end.result is None or end.fault):
            self._write(left.pop(0), end.told, end)
        return left

    def _write(self, program: Program, answers: Mapping[str, Any], end: ChildEnd) -> None:
        answer: Told | None = answers.get(program.name)
        if answer is None and end.fault:
            answer = told(Answer.LEFT_OUT, f"an error of minify: {end.fault.strip().splitlines()[-1]}")
        group = None
        if answer is not None and self._is_unsupported(answer):
            answer = told(Answer.UNSUPPORTED, answer["reason"])
        elif answer is None or Answer(answer["answer"]) is Answer.SUSPECT:
            answer, group = self._looked_at(program, end, "" if answer is None else answer["reason"])
        number = group.number if group is not None else 0
        self._records.note(
            Tried(program.subject, program.variant, program.number, Answer(answer["answer"]), answer["reason"], number)
        )
        self._known.add(program.name)

    def _is_unsupported(self, answer: Told) -> bool:
        pattern = self._hunted.unsupported
        return pattern is not None and answer["answer"] == Answer.SUSPECT and bool(re.search(pattern, answer["reason"]))

    def _run(self, jobs: Sequence[Callable[[], Told]]) -> list[ChildEnd]:
        ended = run_again_if_killed(jobs, self._limits, self._scratch, self._ui.tick)
        for end in ended:
            preload(end.loaded)
        return ended

    @functools.cached_property
    def _recording(self) -> bool:
        """Whether a graph was recorded in this process: all that is imported for it is there for the forks."""
        with tempfile.TemporaryDirectory(dir=self._scratch) as folder:
            record_graphs(torch.neg, [torch.zeros(1)], "eager", Path(folder))
        return True

    def _looked_at(self, program: Program, end: ChildEnd, first: str) -> tuple[Told, Group | None]:
        """Look at the graphs of a program that died, hung, raised, or gave other results than eager mode.

        Return the answer, and the group of the failure, if a graph shows one.
        """
        failure = seen(end) if not first else None
        with tempfile.TemporaryDirectory(dir=self._scratch) as place:
            recorded, work = Path(place) / "recorded", Path(place) / "tried"
            recorded.mkdir()
            assert self._recording
            (made,) = self._run([lambda: record_program(program, self._backend, recorded)])
            if made.result is None or made.fault:
                return told(Answer.LEFT_OUT, "its graphs cannot be recorded"), None
            if Answer(made.result["answer"]) is not Answer.SUSPECT:
                return made.result, None
            try:
                found = first_failure(recorded, work, self._settings, SILENT)
            except FailsByItself as error:
                return told(Answer.LEFT_OUT, str(error).splitlines()[0]), None
            except NoRepro as error:
                return told(Answer.FAILS, f"{first or (failure.sentence if failure else '')}; {error}"), None
            if found is None:
                if failure is None and first == OTHER_RESULTS:
                    return told(Answer.WORKS), None
                return told(Answer.FAILS, f"{failure.sentence if failure else first}, but no graph by itself"), None
            case = load(found.case)
            group = self._records.group_for(case.failure, program.subject)
            if group is None:
                group = self._records.add(program, found, case.failure)
            return told(Answer.FAILS, case.failure.sentence), group
