"""The reduction of a Case, in a process of its own: of a backward graph with a look for a small module, of Dynamo's
with AOTAutograd's to fall back on."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from minifier.case import Case
from minifier.case.store import ATEN, CASE, FORWARD, load, save
from minifier.cluster.elsewhere import ClusterProber
from minifier.cluster.link import Cluster
from minifier.emit.repro import Repro
from minifier.errors import ExitCode, MachineFailed, MinifyError, NoRepro, NothingToReduce, StoppedEarly, UsageError
from minifier.passes.table import OF_VALUES
from minifier.probe.prepared_case import PreparedCase, StartsThreads
from minifier.process.progress import SILENT, Channel, Display, Phase, Progress, run_displayed
from minifier.process.steps import DISK_FULL, TOOL_FAILED, adopt_orphans, deaf, interrupt_once
from minifier.reduction.reduce_case import reduce_case
from minifier.reduction.summary import Summary, write_summary
from minifier.settings import Settings
from minifier.verify import Verification
from minifier.workflow.backward_module import is_lifting, lift, limited

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the stages say and whom they tell: lines for the user, progress for the display; and whom they ask a
    question that is answered by yes or no."""

    say: Say
    display: Display = SILENT
    cluster: Cluster | None = None
    ask: Callable[[str], bool] = lambda _: False


_ENDING: dict[int, type[MinifyError]] = {
    ExitCode.NOTHING: NothingToReduce,
    ExitCode.USAGE: UsageError,
    ExitCode.STOPPED: StoppedEarly,
    ExitCode.INTERNAL: MinifyError,
}
_STARTS_THREADS = 71  # the exit status of a reduction that has to be done with late imports


def reduce_in_child(
    source: Path,
    out: Path,
    settings: Settings,
    around: Surroundings,
    *,
    late: bool = False,
    doubtful: bool = False,
) -> Summary:
    """The reduction in a forked child, where the user's modules are imported; errors come back as such.

    With `late` the child imports nothing of the user's, but each probe does; `doubtful` is as in `reduce_case`.
    """
    out.mkdir(parents=True, exist_ok=True)
    if around.cluster is not None:
        around.display.show(Progress(Phase.CONNECTING))
        around.cluster.wait(around.display.tick)
    around.display.show(Progress(Phase.REDUCING))

    def work(channel: Channel) -> int:
        def elsewhere(bench: PreparedCase, scratch: Path) -> ClusterProber | None:
            return ClusterProber(around.cluster, bench, source, scratch, channel.say) if around.cluster else None

        interrupt_once()
        adopt_orphans()
        # Standard output is the script's; what a backend prints when it is imported again is not.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        try:
            summary = reduce_case(
                source, out, settings, channel.show, late=late, doubtful=doubtful, elsewhere=elsewhere
            )
        except StartsThreads:
            return _STARTS_THREADS
        except KeyboardInterrupt:
            ended = f"interrupted before there was anything to write; `minify reduce {out}` begins again"
            summary = _failed(StoppedEarly(ended))
        except MinifyError as error:
            summary = _failed(error)
        with deaf():  # it is done
            write_summary(out, summary)
        return 0

    def interrupting() -> None:
        around.say("interrupted: going on with the best so far")

    end = run_displayed(work, around.say, around.display, interrupting)
    if end.status == DISK_FULL:
        raise MachineFailed(f"{out} cannot be written to: {end.crash.strip().splitlines()[-1]}")
    if end.status == TOOL_FAILED or end.crash:
        raise MinifyError(end.crash or "the reduction ended without a word")
    if end.status == _STARTS_THREADS:
        around.say("the backend starts threads when it is imported: each probe imports it for itself, which is slower")
        return reduce_in_child(source, out, settings, around, late=True, doubtful=doubtful)
    if end.status != 0:
        how = f"signal {end.signal}" if end.signal is not None else f"exit status {end.status}"
        raise NoRepro(f"importing the backend or what the graph calls ended the process ({how})")
    summary = Summary.read(out)
    (out / "summary.json").unlink()
    return summary


def _failed(error: MinifyError) -> Summary:
    return Summary(0, 0, 0, 0, {}, False, "", 0.0, error=str(error), exit_code=int(error.exit_code))


@dataclass
class Found:
    """What there is so far: the minimal Case, those that a repro can be made from (the best to read first), the repro
    and its verification, and why there is none; `shown` is the Case that the repro was written of."""

    summary: Summary | None = None
    minimal: Case | None = None
    candidates: tuple[Case, ...] = ()
    repro: Repro | None = None
    check: Verification | None = None
    reason: str = ""
    shown: Case | None = None


def reduced(case: Case, out: Path, settings: Settings, around: Surroundings) -> Found:
    """The Case reduced; a backward graph's is lifted to a small module's as well, which is better to read. Where
    Dynamo's graph does not show the failure again, the ATen graph is reduced that AOTAutograd made of it."""
    first = settings
    if is_lifting(out):  # what is read in the end is a small module, which is made plain by itself
        first = replace(settings, skipped=(*settings.skipped, *OF_VALUES))
    summary = reduce_in_child(out / "case", out, first, around)
    if summary.exit_code == ExitCode.NO_REPRO and (out / "case" / ATEN / CASE).exists():
        around.say("Dynamo's graph does not show it again; going on with the ATen graph that AOTAutograd made of it")
        summary = _instead(summary, out, settings, around)
    minimal = None if summary.error else load(out / "minimal")
    if (
        summary.error
        and summary.exit_code in _ENDING
        and (summary.exit_code != ExitCode.INTERNAL or not is_lifting(out))
    ):
        raise _ENDING[summary.exit_code](summary.error)
    candidates = [minimal] if minimal is not None else []
    if is_lifting(out):
        summary, candidates = _lifted(summary, minimal, out, settings, around)
        if minimal is not None and candidates:
            minimal = replace(load(out / "minimal"), needs=candidates[0].needs)
    if not candidates:
        return Found(summary, reason=summary.error)
    smaller = summary.ops_after < summary.ops_before
    what = f"reduced from {summary.ops_before} ops to {summary.ops_after}" if smaller else "no smaller so far"
    around.say(what)
    return Found(summary, minimal or candidates[0], tuple(candidates))


def _instead(summary: Summary, out: Path, settings: Settings, around: Surroundings) -> Summary:
    """The reduction of the ATen graph; its minimal Case is put where that of Dynamo's graph would be."""
    made = reduce_in_child(out / "case" / ATEN, out / ATEN, settings, around)
    if not made.error:
        save(load(out / ATEN / "minimal"), out / "minimal")
        return made
    if made.exit_code == ExitCode.STOPPED:
        return made
    return replace(summary, error=f"{summary.error}\nThe ATen graph that AOTAutograd made of it: {made.error}")


def _lifted(
    summary: Summary, minimal: Case | None, out: Path, settings: Settings, around: Surroundings
) -> tuple[Summary, list[Case]]:
    """(summary, what a repro can be made from) after a look for a small module: whatever comes of that, the minimal
    backward graph stays."""
    if minimal is not None:
        around.say(f"reduced from {summary.ops_before} ops to {summary.ops_after}; looking for a small module")
    rest = limited(settings, summary)
    try:
        made = lift(out / "case", minimal, lambda folder: reduce_in_child(folder, out / FORWARD, rest, around))
    except MinifyError as error:
        made = _failed(error)
    if minimal is None and made.error:
        if made.exit_code == ExitCode.STOPPED:
            raise StoppedEarly(made.error)
        return replace(summary, error=f"{summary.error}\nThe graph that it is the backward pass of: {made.error}"), []
    if made.error:
        around.say(f"there is none: {made.error}")
        if made.exit_code == ExitCode.STOPPED:
            summary = replace(summary, stopped_because=summary.stopped_because or "interrupted")
        assert minimal is not None
        return _plain(summary, minimal, out, rest, around)
    small = load(out / FORWARD / "minimal")
    if minimal is None:
        save(small, out / "minimal")
        return made, [small]
    both = _together(summary, made)
    summary = replace(
        summary, probes=both, seconds=summary.seconds + made.seconds, passes=made.passes, needs=made.needs
    )
    stopped = made.stopped_because
    is_small = not stopped or len(small.graph.ops) <= 2 * len(minimal.graph.ops) + 2
    summary = replace(summary, stopped_because=summary.stopped_because or stopped)
    if not is_small:
        return summary, [minimal, small]
    summary = replace(summary, inputs_after=made.inputs_after, elements_after=made.elements_after)
    return summary, [small, minimal]


def _together(first: Summary, second: Summary) -> dict[str, int]:
    """The probes of two reductions, by verdict."""
    return {verdict: count + second.probes.get(verdict, 0) for verdict, count in first.probes.items()}


def _plain(
    summary: Summary, minimal: Case, out: Path, settings: Settings, around: Surroundings
) -> tuple[Summary, list[Case]]:
    """The same for the minimal backward graph, made plain now that it is what there is."""
    if summary.stopped_because:
        return summary, [minimal]
    place = out / "plain"
    shutil.rmtree(place, ignore_errors=True)  # of a run that was killed
    made = reduce_in_child(out / "minimal", place, settings, around)
    if not made.error:
        minimal = load(place / "minimal")
        save(minimal, out / "minimal")
        both = _together(summary, made)
        seconds = summary.seconds + made.seconds
        summary = replace(made, ops_before=summary.ops_before, probes=both, seconds=seconds, others=summary.others)
    shutil.rmtree(place, ignore_errors=True)
    return summary, [minimal]
