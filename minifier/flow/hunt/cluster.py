"""A hunt on a Ray cluster: batches of programs and reductions are tasks, and their results come back to one folder.

    this process ─ Ray ─ task ─ pipe ─ server, a process with the backend and the sources ─ program, a fork of it
                          └─ minify reduce

Ray starts threads, which do not survive a fork: no process that forks imports it. Ray gives the task of a lost node to
another one; a server lives as long as the process of Ray's that has started it.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import json
import logging
import os
import pickle
import shutil
import socket
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from minifier.data.case.store import CASE, RESULT, load, save
from minifier.data.case.switches import variables
from minifier.data.settings import Settings
from minifier.errors import ToolFailed, UsageError
from minifier.flow.folders import asked_there, note_run
from minifier.flow.hunt.behind import known_faults
from minifier.flow.hunt.executors import now_and_then
from minifier.flow.hunt.exploring import HuntOptions, broken
from minifier.flow.hunt.records import PROGRAM, Records, failure_in
from minifier.flow.hunt.tasks import Batch, BatchAnswer, Setup, packed, reduce_failure, try_batch, unpack
from minifier.flow.hunt.trial import Answer
from minifier.process.machine import cores
from minifier.process.progress import Phase, Progress, Ui

LOCAL = "local"
_PROGRAMS_PER_BATCH = 64
_SECONDS_BETWEEN_LOOKS = 0.25
_CONNECT_SECONDS = 10.0


class RayExecutor:
    """Hands batches and reductions to Ray, one for each CPU that it has, or that are used of them."""

    def __init__(self, ray: Any, slots: int, settings: Settings, ui: Ui) -> None:
        self.slots, self._ray, self._settings, self._ui = slots, ray, settings, ui

    def explore(self, hunted: HuntOptions, folder: Path, until: float) -> bool:
        """Explore, as `Executor` says. Batches are taken in in their order, whichever ends first."""
        records = Records(folder)
        setup = self._setup(pickle.dumps((hunted, replace(self._settings, workers=1), records.lines)))
        write_pages = now_and_then(hunted, records)
        ends_at = time.time() + until - time.monotonic()
        for faults, name in itertools.product((known_faults(records), None), hunted.sources):
            known, starts, is_last, running = broken(records, name), itertools.count(), False, deque[Any]()
            try:
                while running or not (is_last or time.monotonic() > until):
                    while not is_last and len(running) < self.slots and time.monotonic() < until:
                        place = next(starts) * _PROGRAMS_PER_BATCH
                        batch = Batch(name, place, _PROGRAMS_PER_BATCH, ends_at, known, faults)
                        running.append(self._begin(try_batch, setup, pickle.dumps(batch)))
                    self._ui.show(Progress(Phase.HUNTING, hunted.backend, records.progress))
                    answer: BatchAnswer = pickle.loads(self._answer(running.popleft()))
                    if answer.refused:
                        raise UsageError(answer.refused)
                    for line in answer.said:
                        self._ui.say(line)
                    merge(records, answer)
                    write_pages()
                    is_last |= answer.is_last
            finally:
                for begun in running:
                    self._ray.cancel(begun)
        return time.monotonic() < until

    def start_reducing(self, folder: Path, options: Sequence[str]) -> _RayReduction:
        """Begin a reduction in a task."""
        return _RayReduction(self._ray, self._begin(reduce_failure, self._setup(), packed(folder), options), folder)

    def _setup(self, asked: bytes = b"") -> Any:
        """Return a reference to what each task of one kind gets."""
        return self._ray.put(Setup(asked, os.getcwd(), variables(os.environ)))

    def _begin(self, task: Callable[..., Any], *arguments: Any) -> Any:
        return self._ray.remote(task).options(num_cpus=1, retry_exceptions=True).remote(*arguments)

    def _answer(self, begun: Any) -> Any:
        while not self._ray.wait([begun], timeout=_SECONDS_BETWEEN_LOOKS)[0]:
            self._ui.tick()
        try:
            return self._ray.get(begun)
        except self._ray.exceptions.RayError as error:
            raise ToolFailed(f"the cluster does not answer any more: {error}") from error


def merge(records: Records, answer: BatchAnswer) -> None:
    """Write the lines of a batch that was tried elsewhere, and keep its failures that are in no group yet."""
    absent = {(each.subject, each.variant) for each in records.tried if each.answer is Answer.ABSENT}
    groups = {0: 0}
    with tempfile.TemporaryDirectory(prefix="minify-hunt-") as scratch:
        for number, data in answer.failures.items():
            place = Path(scratch) / str(number)
            unpack(data, place)
            for case in place.rglob(CASE):
                save(load(case.parent), case.parent)  # with the mark of this machine
            if (asked := asked_there(place)) is not None:
                note_run(place, asked)
            failure = failure_in(place)
            first = json.loads((place / PROGRAM).read_text(encoding="utf-8"))
            shown = set[int]()
            for line in answer.lines:
                own = {line.group, *(() if line.behind else line.shows)}
                if number in own:
                    shown |= records.shown_before(line) | {groups[each] for each in own & groups.keys()}
            group = records.group_for(failure, first["kin"], shown)
            group = group or records.add(first["name"], first["kin"], place, failure)
            groups[number] = group.number
    for line in answer.lines:
        if line.answer is not Answer.ABSENT or (line.subject, line.variant) not in absent:
            shows = line.shows if line.behind else tuple(groups[number] for number in line.shows)
            records.note(replace(line, group=groups[line.group], shows=shows))


class _RayReduction:
    def __init__(self, ray: Any, begun: Any, folder: Path) -> None:
        self._ray, self._begun, self._folder = ray, begun, folder

    def poll(self) -> int | None:
        """Return None while it runs; at its end, write its files into the folder here. Return 0, or 1 if it is lost."""
        if not self._ray.wait([self._begun], timeout=0)[0]:
            return None
        try:
            data = self._ray.get(self._begun)
        except self._ray.exceptions.RayError:
            return 1
        with tempfile.TemporaryDirectory(prefix=".", dir=self._folder.parent) as beside:
            place = Path(beside)
            unpack(data, place)
            for case in place.rglob(CASE):
                save(load(case.parent), case.parent)  # with the mark of this machine
            for path in sorted(filter(Path.is_file, place.rglob("*")), key=lambda each: each.name == RESULT):
                target = self._folder / path.relative_to(place)
                target.parent.mkdir(parents=True, exist_ok=True)
                path.replace(target)  # a folder with a result is whole
        return 0

    def end(self) -> None:
        """Give it up."""
        self._ray.cancel(self._begun, force=True)


def _refuse_silence(address: str) -> None:
    """Raise OSError if nobody listens at HOST:PORT, for which Ray would wait minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if port.isdecimal():
        socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS).close()


@contextlib.contextmanager
def connected(address: str, settings: Settings, ui: Ui) -> Iterator[RayExecutor]:
    """Yield what runs a hunt on the cluster at the address; `local` starts one of this machine's cores.

    Raises UsageError if that is not possible.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
    folder = ""
    try:
        ray: Any = importlib.import_module("ray")
        if address == LOCAL:
            own: dict[str, Any] = {"num_cpus": settings.workers or cores(), "include_dashboard": False}
            folder = tempfile.mkdtemp(prefix="minify-ray-", dir="/tmp")  # short: paths of sockets in it are limited
            ray.init(address=LOCAL, **own, _temp_dir=folder, **quiet)
        else:
            _refuse_silence(address)
            ray.init(address=address, **quiet)
    except Exception as error:  # the user's address, network or versions
        shutil.rmtree(folder, ignore_errors=True)
        raise UsageError(
            f"--cluster {address}: {type(error).__name__}: {error}\n"
            "Give the address of a running Ray cluster, `auto` on one of its machines, or `local`; Ray is in "
            "`pip install 'torch-minify[ray]'`."
        ) from error
    try:
        slots = int(ray.cluster_resources().get("CPU", 1))
        yield RayExecutor(ray, min(settings.workers or slots, slots), settings, ui)
    finally:
        ray.shutdown()
        shutil.rmtree(folder, ignore_errors=True)
