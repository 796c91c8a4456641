"""`python -m minifier.flow.hunt.server`: tries batches of programs that come in from a task on a Ray cluster.

All files of a batch are in a folder that the task makes, and removes."""

from __future__ import annotations

import itertools
import os
import pickle
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from minifier.data.settings import Settings
from minifier.errors import MinifyError
from minifier.flow.hunt.exploring import Explorer, HuntOptions
from minifier.flow.hunt.programs import Program
from minifier.flow.hunt.records import ProgramResult, Records
from minifier.flow.hunt.tasks import Batch, BatchAnswer, packed
from minifier.flow.prepare import import_torch
from minifier.process.descendants import adopt_orphans, die_with_parent
from minifier.process.descriptors import out_of_the_way
from minifier.process.progress import Ui
from minifier.torch_side.fx.tensors import one_thread
from minifier.torch_side.torch_private.inductor import inductor_cache, inductor_folder


class _Said(Ui):
    """Keeps what is said, for the answer."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)


class _Server:
    """Has the backend and the sources imported, and forks its programs."""

    def __init__(self, hunted: HuntOptions, settings: Settings, known: Sequence[ProgramResult], scratch: Path) -> None:
        self._ui = _Said()
        self._explorer = Explorer(hunted, Records(scratch), settings, scratch, self._ui)
        for line in known:
            self._explorer.take_in(line)
        self._before: tuple[Batch, Iterator[Program]] | None = None  # and the programs after those of that batch

    def answer(self, batch: Batch, scratch: Path) -> BatchAnswer:
        """Try the programs of a batch."""
        with one_thread():  # a source may compute here
            programs = self._programs(batch)
        records = self._explorer.records = Records(scratch)
        self._explorer.scratch = scratch
        self._explorer.try_programs(programs, time.monotonic() + batch.until - time.time())
        failures = {group.number: packed(group.folder.path) for group in records.groups}
        said, self._ui.lines = tuple(self._ui.lines), []
        return BatchAnswer(records.lines, failures, len(programs) < batch.count, said)

    def _programs(self, batch: Batch) -> list[Program]:
        place, before = 0, self._before
        if before is not None and before[0].precedes(batch):
            place, programs = before[0].start + before[0].count, before[1]
        else:
            programs = self._explorer.programs(batch.source, batch.broken, batch.faults)
        self._before = batch, programs
        return list(itertools.islice(programs, batch.start - place, batch.start - place + batch.count))


def main() -> None:
    """Answer until standard input ends. What programs print goes to standard error."""
    die_with_parent()
    requests = os.fdopen(out_of_the_way(os.dup(0)), "rb")
    answers = os.fdopen(out_of_the_way(os.dup(1)), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    adopt_orphans()
    import_torch()
    inductor_folder(), inductor_cache()  # the answers are cached
    hunted, settings, known = pickle.load(requests)
    server: _Server | None = None
    while True:
        try:
            batch, scratch = pickle.load(requests)
        except EOFError:
            return
        tempfile.tempdir = scratch
        try:
            server = server or _Server(hunted, settings, known, Path(scratch))
            answer = server.answer(pickle.loads(batch), Path(scratch))
        except MinifyError as error:
            answer = BatchAnswer(refused=str(error))
        pickle.dump(pickle.dumps(answer), answers)
        answers.flush()


if __name__ == "__main__":
    main()
