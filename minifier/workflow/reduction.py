"""Reduce a Case in a forked process, where the user's modules are imported."""

from __future__ import annotations

import functools
import os
import signal
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from minifier.capturing.script import Program, take_the_place_of
from minifier.case import Case, Level
from minifier.case.attributes import attributes_as_inputs
from minifier.case.run_folder import RunFolder, shown_path
from minifier.case.store import CASE, load, save
from minifier.emit.repro import guard_gibibytes
from minifier.errors import (
    ExitCode,
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
from minifier.failure import Kind
from minifier.passes.table import OF_VALUES
from minifier.probe.prepared_case import PreparedCase, StartsThreads
from minifier.probe.prober import Prober
from minifier.process.interrupts import interrupt_once
from minifier.process.memory import free_memory
from minifier.process.orphans import adopt_orphans
from minifier.process.progress import Channel, Phase, Progress, counted, run_for_result
from minifier.reduction.reduce_case import ReductionTask, reduce_case
from minifier.reduction.summary import Summary
from minifier.settings import Settings
from minifier.workflow.attempt import Attempt, Reduced

if TYPE_CHECKING:
    from minifier.cluster.link import Cluster

_INTERRUPTED = "interrupted: ending the search, then verifying the best so far; press Ctrl-C again to stop at once"


def reduce_in_child(
    attempt: Attempt, source: Path, out: Path, settings: Settings | None = None, *, doubtful: bool = False
) -> Reduced:
    """Reduce the Case in `source` in a forked child; the minimal Case goes to minimal/ in `out`.

    The default settings are the settings of the attempt's run. Raises the errors of `reduce_case`, StoppedEarly for an
    interrupt before there is a result, and NoRepro if the child dies, for example in an import of the user's modules.
    """
    ui, cluster = attempt.run.ui, attempt.run.cluster
    program = attempt.asked.program if attempt.asked is not None else None
    task = ReductionTask(source, out, settings or attempt.run.settings, attempt.imports_in_child, doubtful)
    out.mkdir(parents=True, exist_ok=True)
    if cluster is not None:
        ui.show(Progress(Phase.CONNECTING))
        cluster.wait(ui.tick)
    ui.show(Progress(Phase.REDUCING, step="calling the backend again"))

    def work(channel: Channel) -> Summary:
        interrupt_once()
        take_the_place_of(program or Program(load(source).script.name))
        adopt_orphans()
        # Standard output is the script's; what a backend prints when it is imported again is not.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        elsewhere = functools.partial(_on_cluster, cluster, source, channel) if cluster is not None else None
        try:
            return reduce_case(task, channel.show, elsewhere=elsewhere)
        except KeyboardInterrupt:
            message = f"interrupted before there was anything to write; `minify reduce {shown_path(out)}` begins again"
            raise StoppedEarly(message) from None

    try:
        summary, end = run_for_result(Summary, work, ui, lambda: ui.say(_INTERRUPTED))
    except MachineFailed as error:
        raise type(error)(f"{shown_path(out)}: {error}") from None
    except UsageError as error:
        if (source / CASE).exists():
            raise
        raise FolderRemoved(f"{source} was removed while it was in use: {error}") from None
    if summary is None:
        if end.signal == signal.SIGKILL:
            raise LimitReached(
                f"{shown_path(out)}: the reduction's process was killed (SIGKILL) again and again, perhaps by the "
                "kernel for lack of memory"
            )
        raise NoRepro(
            f"the reduction's process ended ({end.described}), perhaps as it imported the backend or what the graph "
            "calls"
        )
    if end.interrupted_again:
        raise StoppedAtOnce(
            f"interrupted twice: the best so far is in {shown_path(out)}, not verified; `minify reduce "
            f"{shown_path(out)}` goes on"
        )
    attempt.run.errors.extend(summary.errors)
    minimal = load(RunFolder(out).minimal)
    return Reduced(summary, minimal, (minimal,))


def _on_cluster(cluster: Cluster, source: Path, channel: Channel, prepared: PreparedCase, scratch: Path) -> Prober:
    from minifier.cluster.elsewhere import ClusterProber

    return ClusterProber(cluster, prepared, source, scratch, channel.say)


def with_memory_limit(settings: Settings, case: Case) -> Settings:
    """Limit the memory of probes for an out-of-memory failure, so that each probe fails early and in the same way."""
    if settings.memory is not None or case.failure.fingerprint.kind is not Kind.OUT_OF_MEMORY:
        return settings
    room_beyond_the_repro = 2 * guard_gibibytes(case) * 2**30
    return replace(settings, memory=min(free_memory(3 / 4) or 2**63, room_beyond_the_repro) or None)


def reduce(attempt: Attempt) -> Attempt:
    """Reduce the attempt's Case.

    An error that a fallback may get around becomes the attempt's error: the graph does not show the failure again, say,
    or the import of the backend starts threads. Raises NothingToReduce if the program fails without the backend,
    StoppedEarly, and all other errors.
    """
    folder, settings = attempt.folder, attempt.run.settings
    if folder.has_forward:  # the user reads the small module, which is simplified by itself
        settings = replace(settings, skipped=(*settings.skipped, *OF_VALUES))
    try:
        return attempt.succeeded(reduce_in_child(attempt, folder.case, folder.path, settings))
    except (MachineFailed, ToolFailed):
        raise
    except MinifyError as error:
        may_show_otherwise = error.exit_code is ExitCode.INTERNAL and folder.has_forward
        if error.exit_code is ExitCode.NO_REPRO or isinstance(error, StartsThreads) or may_show_otherwise:
            return attempt.failed(error)
        raise


def reduce_further(
    attempt: Attempt, source: Path, out: Path, settings: Settings | None = None, *, doubtful: bool = False
) -> Attempt:
    """Reduce another Case of the attempt, the one in `source`; return the attempt with the result or the error.

    If the import of the backend starts threads, each probe imports the backend. Raises StoppedEarly, and the errors of
    the machine and of this tool.
    """
    try:
        return attempt.succeeded(reduce_in_child(attempt, source, out, settings, doubtful=doubtful))
    except StartsThreads:
        return reduce_further(replace(attempt, imports_in_child=True), source, out, settings, doubtful=doubtful)
    except (StoppedEarly, MachineFailed, ToolFailed):
        raise
    except MinifyError as error:
        return attempt.failed(error)


def reduce_anew(attempt: Attempt) -> Attempt:
    """Reduce the attempt's Case; the first interrupt is an error like any other: what was reduced before stands."""
    try:
        return reduce(replace(attempt, reduced=None))
    except StoppedAtOnce:
        raise
    except StoppedEarly as error:
        return attempt.failed(error)


def reduce_changed(
    attempt: Attempt,
    change: Callable[[Case], Case],
    what: str,
    levels: Collection[str] = (),
    reducing: Callable[[Attempt], Attempt] = reduce,
) -> Attempt:
    """Change the saved Case, and those of these levels, and reduce again.

    If that fails too, restore the Cases, name the error after `what`, and return the attempt unchanged. Any exception
    restores the Cases as well: `minify reduce` of the folder begins with them.
    """
    folder = attempt.folder.case
    places = [place for place in (folder, *(folder / level for level in levels)) if (place / CASE).exists()]
    before = {place: load(place) for place in places}
    again: Attempt | None = None
    try:
        for place, case in before.items():
            save(change(case), place)
        again = reducing(replace(attempt, case=load(folder)))
    finally:
        if again is None or again.error is not None:
            for place, case in before.items():
                save(case, place)
    if again.error is None:
        return again
    attempt.run.ui.detail(f"{what}: {again.error}")
    return attempt


def reduce_through_dynamo(attempt: Attempt) -> Attempt:
    """Reduce the attempt's Case with probes that call torch.compile; return the attempt unchanged if that fails too.

    Dynamo then calls the backend as in the script, and handles the result of the backend itself.
    """
    return reduce_changed(attempt, lambda case: replace(case, through_dynamo=True), "through torch.compile")


def holds_tensors(attempt: Attempt) -> bool:
    """Whether the reduced graph is one of Dynamo's and still has tensors as attributes."""
    minimal = attempt.reduced.minimal if attempt.reduced is not None else None
    return minimal is not None and minimal.level is Level.DYNAMO and bool(minimal.graph.attributes)


def reduce_as_parameters(attempt: Attempt) -> Attempt:
    """Reduce again with the graph's attributes as parameters of a function, which a repro has; return the attempt
    unchanged if the failure does not show through torch.compile on that function."""

    def as_parameters(case: Case) -> Case:
        return replace(attributes_as_inputs(case), through_dynamo=True)

    return reduce_changed(attempt, as_parameters, "with attributes as parameters", reducing=reduce_anew)


def tell_size(attempt: Attempt) -> None:
    """Tell the user from how many ops to how many the Case was reduced."""
    if attempt.reduced is not None:
        summary = attempt.reduced.summary
        smaller = summary.ops_after < summary.ops_before
        what = f"reduced from {summary.ops_before} ops to {summary.ops_after}" if smaller else "no smaller so far"
        attempt.run.ui.detail(what)
        if summary.too_large:
            attempt.run.ui.say(summary.too_large)
        if ahead := attempt.reduced.minimal.ahead:
            attempt.run.ui.say(f"the failure needs {counted(len(ahead), 'earlier call')} of the backend")
        if attempt.reduced.minimal.any_graph:
            attempt.run.ui.say("the backend fails on any graph, also on one without ops")


def take_as_captured(attempt: Attempt) -> Attempt:
    """Take the captured Case for the reduced one, after an error of this tool left no smaller one."""
    case, size = attempt.case, len(attempt.case.graph.ops)
    save(case, attempt.folder.minimal)
    why = said_of_trace(attempt.run.errors[-1])
    summary = Summary(size, size, len(case.inputs), case.elements, {"total": 0}, False, why, 0.0)
    return attempt.succeeded(Reduced(summary, case, (case,)))


def reduce_aten(attempt: Attempt) -> Attempt:
    """Reduce the ATen graph in place of Dynamo's."""
    folder = attempt.folder
    again = reduce_further(attempt, folder.aten, folder.reduced_aten)
    if again.error is not None:
        return again.failed(NoRepro(f"{attempt.error}\nThe ATen graph that AOTAutograd made of it: {again.error}"))
    save(again.reduction.minimal, folder.minimal)
    return again
