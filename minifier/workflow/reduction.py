"""Reduce a Case in a forked process, where the user's modules are imported."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from minifier.capturing.script import Program, take_the_place_of
from minifier.case import Case, Level
from minifier.case.attributes import attributes_as_inputs
from minifier.case.store import CASE, load, save
from minifier.cluster.elsewhere import ClusterProber
from minifier.emit.repro import guard_gibibytes
from minifier.errors import ExitCode, MachineFailed, MinifyError, NoRepro, StoppedEarly, ToolFailed
from minifier.failure import Kind
from minifier.passes.table import OF_VALUES
from minifier.probe.prepared_case import PreparedCase, StartsThreads
from minifier.process.interrupts import deaf, interrupt_once
from minifier.process.memory import free_memory
from minifier.process.orphans import adopt_orphans
from minifier.process.progress import SILENT, Channel, Phase, Progress, Ui, counted, run_displayed
from minifier.reduction.reduce_case import ReductionTask, reduce_case
from minifier.reduction.summary import Summary, write_summary
from minifier.settings import Settings
from minifier.workflow.attempt import Attempt, Reduced

if TYPE_CHECKING:
    from minifier.cluster.link import Cluster


def reduce_in_child(task: ReductionTask, ui: Ui = SILENT, cluster: Cluster | None = None) -> Summary:
    """Reduce a Case in a forked child; the result goes to minimal/ in the task's folder.

    Raises the errors of `reduce_case`, StoppedEarly for an interrupt before there is a result, and NoRepro if the child
    dies, for example in an import of the user's modules.
    """
    out = task.folder
    out.mkdir(parents=True, exist_ok=True)
    if cluster is not None:
        ui.show(Progress(Phase.CONNECTING))
        cluster.wait(ui.tick)
    ui.show(Progress(Phase.REDUCING))

    def work(channel: Channel) -> int:
        def elsewhere(prepared: PreparedCase, scratch: Path) -> ClusterProber | None:
            return ClusterProber(cluster, prepared, task.source, scratch, channel.say) if cluster else None

        interrupt_once()
        take_the_place_of(task.program or Program(load(task.source).script.name))
        adopt_orphans()
        # Standard output is the script's; what a backend prints when it is imported again is not.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        try:
            summary = reduce_case(task, channel.show, elsewhere=elsewhere)
        except KeyboardInterrupt:
            message = f"interrupted before there was anything to write; `minify reduce {out}` begins again"
            raise StoppedEarly(message) from None
        with deaf():  # the reduction is complete
            write_summary(out, summary)
        return 0

    try:
        end = run_displayed(work, ui, lambda: ui.say("interrupted: ending the search"))
    except MachineFailed as error:
        raise MachineFailed(f"{out}: {error}") from None
    if end.status != 0:
        how = f"signal {end.signal}" if end.signal is not None else f"exit status {end.status}"
        raise NoRepro(
            f"the reduction's process ended ({how}), perhaps as it imported the backend or what the graph calls"
        )
    summary = Summary.read(out)
    (out / "summary.json").unlink()
    return summary


def with_memory_limit(settings: Settings, case: Case) -> Settings:
    """Limit the memory of probes for an out-of-memory failure, so that each probe fails early and in the same way."""
    if settings.memory is not None or case.failure.fingerprint.kind is not Kind.OUT_OF_MEMORY:
        return settings
    room_beyond_the_repro = 2 * guard_gibibytes(case) * 2**30
    return replace(settings, memory=min(free_memory(3 / 4) or 2**63, room_beyond_the_repro) or None)


def run_reduction(
    attempt: Attempt, source: Path, out: Path, settings: Settings | None = None, *, doubtful: bool = False
) -> tuple[Summary, Case]:
    """Reduce the Case in `source` into `out`; return the summary and the minimal Case.

    The default settings are the settings of the attempt's run.
    """
    run = attempt.run
    program = attempt.asked.program if attempt.asked is not None else None
    task = ReductionTask(source, out, settings or run.settings, attempt.imports_in_child, doubtful, program)
    summary = reduce_in_child(task, run.ui, run.cluster)
    return summary, load(out / "minimal")


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
        summary, minimal = run_reduction(attempt, folder.case, folder.path, settings)
    except MinifyError as error:
        if error.exit_code is ExitCode.NO_REPRO or _may_be_passed_over(error, attempt):
            return attempt.failed(error)
        raise
    return replace(attempt, reduced=Reduced(summary, minimal, (minimal,)), error=None)


def reduce_anew(attempt: Attempt) -> Attempt:
    """Reduce the attempt's Case; an interrupt is an error like any other, since what was reduced before stands."""
    try:
        return reduce(replace(attempt, reduced=None))
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

    If that fails too, restore the Cases, name the error after `what`, and return the attempt unchanged.
    """
    folder = attempt.folder.case
    places = [place for place in (folder, *(folder / level for level in levels)) if (place / CASE).exists()]
    before = {place: load(place) for place in places}
    for place, case in before.items():
        save(change(case), place)
    again = reducing(replace(attempt, case=load(folder)))
    if again.error is None:
        return again
    attempt.run.ui.detail(f"{what}: {again.error}")
    for place, case in before.items():
        save(case, place)
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


def _may_be_passed_over(error: MinifyError, attempt: Attempt) -> bool:
    """Whether another reduction may still succeed after the error: with imports in each probe, or of another graph."""
    if isinstance(error, (MachineFailed, ToolFailed)):
        return False
    return isinstance(error, StartsThreads) or (error.exit_code is ExitCode.INTERNAL and attempt.folder.has_forward)


def tell_size(attempt: Attempt) -> None:
    """Tell the user from how many ops to how many the Case was reduced."""
    if attempt.reduced is not None:
        summary = attempt.reduced.summary
        smaller = summary.ops_after < summary.ops_before
        what = f"reduced from {summary.ops_before} ops to {summary.ops_after}" if smaller else "no smaller so far"
        attempt.run.ui.say(what)
        if ahead := attempt.reduced.minimal.ahead:
            attempt.run.ui.say(f"the failure needs {counted(len(ahead), 'earlier call')} of the backend")
        if attempt.reduced.minimal.any_graph:
            attempt.run.ui.say("the backend fails on any graph, also on one without ops")


def reduce_aten(attempt: Attempt) -> Attempt:
    """Reduce the ATen graph in place of Dynamo's."""
    folder = attempt.folder
    try:
        summary, minimal = run_reduction(attempt, folder.aten, folder.reduced_aten)
    except StartsThreads:
        return reduce_aten(replace(attempt, imports_in_child=True))
    except (StoppedEarly, MachineFailed, ToolFailed):
        raise
    except MinifyError as error:
        return attempt.failed(NoRepro(f"{attempt.error}\nThe ATen graph that AOTAutograd made of it: {error}"))
    save(minimal, folder.minimal)
    return replace(attempt, reduced=Reduced(summary, minimal, (minimal,)), error=None)
