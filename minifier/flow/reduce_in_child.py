"""Reduce a Case in a forked process, or in the script's own process."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import torch

from minifier.capturing.capture import run_here
from minifier.capturing.graph_record import Record
from minifier.capturing.script import Program, take_the_place_of
from minifier.data.case import Case
from minifier.data.case.run_folder import RunFolder, shown_path, typed_path
from minifier.data.case.serial import pack, unpack
from minifier.data.case.store import CASE, load, save, write_atomically
from minifier.data.failure import Kind, Stage
from minifier.data.settings import Settings
from minifier.errors import (
    FolderRemoved,
    LimitReached,
    MachineFailed,
    MinifyError,
    NoRepro,
    StoppedAtOnce,
    StoppedEarly,
    ToolFailed,
    UsageError,
    said_of_trace,
)
from minifier.flow.attempt import Attempt, Reduced
from minifier.process.descendants import adopt_orphans
from minifier.process.forked_step import output_dropped
from minifier.process.interrupts import interrupt_once
from minifier.process.machine import free_memory
from minifier.process.progress import Phase, Progress, ProgressPipe, counted, run_displayed, run_for_result
from minifier.reduction.check import Shown, probe_once
from minifier.reduction.probe.prepared_case import StartsThreads
from minifier.reduction.reduce_case import ReductionTask, reduce_case
from minifier.reduction.summary import Summary
from minifier.repro.emit.statements import guard_gibibytes

Variables = tuple[tuple[str, str], ...]
_Result = TypeVar("_Result")

_MIN_PROBES = 16  # that a further reduction gets where the user's limits are used up
INTERRUPTED = "interrupted: ending the search, then verifying the best so far; press Ctrl-C again to stop at once"


def reduce_in_child(
    attempt: Attempt, case: Case, out: Path, settings: Settings | None = None, *, doubtful: bool = False
) -> Reduced:
    """Reduce the Case in a forked child; the minimal Case goes to minimal/ in `out`.

    The default settings are the settings of the attempt's run. If forks lack threads that the import of the backend
    starts, begin again, with an import in each probe.

    Raises the errors of `reduce_case`, StoppedEarly for an interrupt before there is a result, and NoRepro if the child
    dies, for example in an import of the user's modules.
    """
    run = attempt.run

    def reduced(in_each_probe: bool) -> Summary:
        task = ReductionTask(case, out, settings or run.settings, in_each_probe, doubtful)

        def work(channel: ProgressPipe) -> Summary:
            return reduce_case(task, channel.show)

        return in_child(attempt, out, work)

    summary = with_threads(attempt, reduced)
    run.errors.extend(summary.errors)
    return Reduced(summary, load(RunFolder(out).minimal), case)


def with_threads(attempt: Attempt, work: Callable[[bool], _Result]) -> _Result:
    """Return the result of `work(in_each_probe)`; again, with an import of the backend in each probe, if forks lack
    threads that the import starts. Later work of the run begins with that."""
    run, backend = attempt.run, attempt.case.backend.expression
    if backend not in run.with_threads:
        try:
            return work(False)
        except StartsThreads:
            run.with_threads.add(backend)
            run.ui.say(
                "importing the backend starts threads or a device, and forked processes do not have them: each probe "
                "now imports it, which is slower"
            )
    return work(True)


def shown_once(attempt: Attempt, case: Case, name: str) -> Shown:
    """Probe another Case once, with an import of its backend, in a forked child. `name` is what it is shown as.

    Raises as `reduce_in_child` does.
    """

    def work(channel: ProgressPipe) -> Shown:
        return probe_once(case, name, attempt.run.settings, channel.show)

    return in_child(attempt, attempt.folder.path, work)


_BEGIN = Progress(Phase.REDUCING, step="calling the backend again")


def in_child(
    attempt: Attempt,
    out: Path,
    work: Callable[[ProgressPipe], _Result],
    begin: Progress = _BEGIN,
    interrupted: str = INTERRUPTED,
) -> _Result:
    """Run `work` in a forked child in the place of the script; return its result.

    `begin` is shown until the work shows something, `interrupted` is said at the first Ctrl-C.
    """
    run, ui = attempt.run, attempt.run.ui
    program = attempt.asked.program if attempt.asked is not None else Program(attempt.case.script.name)
    out.mkdir(parents=True, exist_ok=True)
    ui.show(begin)

    def work_in_place(channel: ProgressPipe) -> _Result:
        interrupt_once()
        take_the_place_of(program)
        adopt_orphans()
        # Standard output is the script's; what a backend prints when it is imported again is not.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        try:
            return work(channel)
        except KeyboardInterrupt:
            message = f"interrupted before there was anything to write; `minify reduce {typed_path(out)}` begins again"
            raise StoppedEarly(message) from None

    try:
        result, end = run_for_result(work_in_place, ui, lambda: run.interrupt(interrupted))
    except MachineFailed as error:
        raise type(error)(f"{shown_path(out)}: {error}") from None
    except UsageError as error:
        if (attempt.folder.case / CASE).exists():
            raise
        raise FolderRemoved(f"{attempt.folder.case} was removed while it was in use: {error}") from None
    if end.interrupted_again:
        raise StoppedAtOnce(
            f"interrupted twice: the best so far is in {shown_path(out)}, not verified; `minify reduce "
            f"{typed_path(out)}` goes on"
        )
    if result is None:
        if end.signal == signal.SIGKILL:
            raise LimitReached(
                f"{shown_path(out)}: the reduction's process was killed (SIGKILL) again and again, perhaps by the "
                "kernel for lack of memory"
            )
        raise NoRepro(
            f"the reduction's process ended ({end.described}), perhaps as it imported the backend or what the graph "
            "calls"
        )
    return result


def with_memory_limit(settings: Settings, case: Case) -> Settings:
    """Limit the memory of probes for an out-of-memory failure, so that each probe fails early and in the same way."""
    if settings.memory is not None or case.failure.fingerprint.kind is not Kind.OUT_OF_MEMORY:
        return settings
    room_beyond_the_repro = 2 * guard_gibibytes(case) * 2**30
    return replace(settings, memory=min(free_memory(3 / 4) or 2**63, room_beyond_the_repro) or None)


def add_probes(first: dict[str, int], second: dict[str, int]) -> dict[str, int]:
    """Add numbers of probes, by verdict."""
    return {verdict: first.get(verdict, 0) + second.get(verdict, 0) for verdict in first | second}


def limited(settings: Settings, summary: Summary) -> Settings:
    """Return the settings with the limits that a reduction has left; `_MIN_PROBES` probes after a stopped reduction."""
    if summary.stopped_because:
        return replace(settings, max_probes=_MIN_PROBES)
    budget, most = settings.budget, settings.max_probes
    return replace(
        settings,
        budget=None if budget is None else max(1.0, budget - summary.seconds),
        max_probes=None if most is None else max(_MIN_PROBES, most - summary.probes.get("total", 0)),
    )


def tell_size(attempt: Attempt) -> None:
    """Tell the user from how many ops to how many the Case was reduced."""
    if attempt.reduced is not None:
        summary = attempt.reduced.summary
        smaller = summary.ops_after < summary.ops_before
        what = f"reduced from {summary.ops_before} ops to {summary.ops_after}" if smaller else "no smaller so far"
        attempt.run.ui.detail(what)
        if summary.too_large:
            attempt.run.ui.say(summary.too_large)
        if others := attempt.reduced.minimal.others:
            attempt.run.ui.say(f"the failure needs {counted(len(others), 'earlier call')} of the backend")
        if attempt.reduced.minimal.any_graph:
            attempt.run.ui.say("the backend fails on any graph, also on one without ops")


def take_as_captured(attempt: Attempt) -> Attempt:
    """Take the captured Case for the reduced one, after an error of this tool left no smaller one."""
    attempt.run.ui.say(said_of_trace(attempt.run.errors[-1]))
    attempt.run.ui.say("going on with the Case as captured")
    case, size = attempt.case, len(attempt.case.graph.ops)
    save(case, attempt.folder.minimal)
    why = said_of_trace(attempt.run.errors[-1])
    summary = Summary(size, size, len(case.inputs), case.elements, {"total": 0}, False, why, 0.0)
    return replace(attempt, reduced=Reduced(summary, case, case))


def is_only_live(attempt: Attempt) -> bool:
    """Whether a run of the script showed a wrong result of a graph that no other process has shown."""
    is_wrong = attempt.case.failure.fingerprint.stage is Stage.COMPARE
    return attempt.reduced is None and attempt.call is not None and not attempt.call.failing.unsaved and is_wrong


def reduce_with_live_backend(attempt: Attempt) -> Attempt:
    """Run the script up to the wrong result, and reduce the graph there, in forks of its process.

    That names the ops at fault; no repro can be written, so the attempt keeps its error. It is as it was if the graph
    does not show the failure there either.
    """
    assert attempt.call is not None, "the script is known"
    found, number, run = attempt.call.found, attempt.call.failing.number, attempt.run
    out = attempt.folder.path

    def work(channel: ProgressPipe) -> int:
        def on_failure(record: Record, error: BaseException | None) -> None:
            if error is not None or record.number != number:
                return
            torch.set_num_threads(1)  # forks lack the threads that the script's ops have started
            task = ReductionTask(load(record.folder), out, run.settings, backend=record.backend_object)
            try:
                with contextlib.suppress(MinifyError), torch.enable_grad():
                    write_atomically(result, json.dumps(pack(reduce_case(task, channel.show))))
            except Exception:  # noqa: BLE001 - it would go through the script
                write_atomically(trace, traceback.format_exc())
            finally:
                os._exit(0)  # without the script's exit handlers

        interrupt_once()
        adopt_orphans()
        drop_output()
        run_here(found.program, place / "live", found.terms, on_failure)
        return 0

    run.ui.say("reducing the graph in the script's own process, where its backend is")
    run.ui.show(Progress(Phase.REDUCING, step="running the script again"))
    with tempfile.TemporaryDirectory(prefix="minify-") as folder, output_dropped(True) as drop_output:
        place = Path(folder)
        result, trace = place / "result.json", place / "trace"
        run_displayed(work, run.ui, run.interrupted.set)
        if trace.exists():
            raise ToolFailed(trace.read_text(encoding="utf-8"))
        if not result.exists():
            run.ui.detail("the graph does not show the failure there either")
            return attempt
        summary: Summary = unpack(Summary, json.loads(result.read_text(encoding="utf-8")))
    run.errors.extend(summary.errors)
    minimal = load(RunFolder(out).minimal)
    return replace(attempt, reduced=Reduced(summary, minimal, attempt.case))
