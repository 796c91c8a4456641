"""`python -m minifier.flow.hunt.server`: tries batches of programs that come in from a task on a Ray cluster.

All files of a batch are in a folder that the task makes, and removes."""

from __future__ import annotations

import itertools
import os
import pickle
import tempfile
from collections.abc import Iterator
from pathlib import Path

from minifier.data.settings import Settings
from minifier.errors import MinifyError
from minifier.flow.hunt.exploring import Explorer, HuntOptions
from minifier.flow.hunt.programs import Program
from minifier.flow.hunt.records import ProgramResult, Records
from minifier.flow.hunt.tasks import Batch, BatchAnswer, packed
from minifier.flow.prepare import import_torch
from minifier.process.descendants import adopt_orphans
from minifier.process.descriptors import out_of_the_way
from minifier.process.progress import Ui


class _Said(Ui):
    """Keeps what is said, for the answer."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)


class _Server:
    """Has the backend and the sources imported, and forks its programs."""

    def __init__(self, hunted: HuntOptions, settings: Settings, known: Records, scratch: Path) -> None:
        self._ui = _Said()
        self._explorer = Explorer(hunted, known, settings, scratch, self._ui)
        self._source: tuple[Batch, Iterator[Program]] | None = None  # after the programs of that batch

    def answer(self, batch: Batch, scratch: Path) -> BatchAnswer:
        """Try the programs of a batch."""
        programs = self._programs(batch)
        records = self._explorer.records = Records(scratch)
        self._explorer.scratch = scratch
        self._explorer.try_programs(programs, batch.seconds)
        failures = {group.number: packed(group.folder.path) for group in records.groups}
        said, self._ui.lines = tuple(self._ui.lines), []
        return BatchAnswer(tuple(records.tried), failures, len(programs) < batch.count, said)

    def _programs(self, batch: Batch) -> list[Program]:
        before, place = self._source, 0
        if before is not None and before[0].source == batch.source and before[0].start + before[0].count <= batch.start:
            place, programs = before[0].start + before[0].count, before[1]
        else:
            programs = self._explorer.programs(batch.source, batch.broken)
        self._source = batch, programs
        return list(itertools.islice(programs, batch.start - place, batch.start - place + batch.count))


def main() -> None:
    """Answer until standard input ends. What programs print goes to standard error."""
    requests = os.fdopen(out_of_the_way(os.dup(0)), "rb")
    answers = os.fdopen(out_of_the_way(os.dup(1)), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    adopt_orphans()
    import_torch()
    hunted, settings, tried = pickle.load(requests)
    server: _Server | None = None
    while True:
        try:
            batch, scratch = pickle.load(requests)
        except EOFError:
            return
        tempfile.tempdir = scratch
        try:
            server = server or _Server(hunted, settings, _known(tried, Path(scratch)), Path(scratch))
            answer = server.answer(batch, Path(scratch))
        except MinifyError as error:
            answer = BatchAnswer(refused=str(error))
        pickle.dump(answer, answers)
        answers.flush()


def _known(tried: list[ProgramResult], folder: Path) -> Records:
    known = Records(folder)
    known.tried = tried
    return known


if __name__ == "__main__":
    main()
