"""From a script, or a Case, to a verified repro: the stages in their order, each a function of the last."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from minifier.capture.stage import FailingGraph
from minifier.case import BackendReference, Case, Graph, Node, Reach, Script
from minifier.case.store import ATEN, CASE, FORWARD, load, save
from minifier.emit.input_source import TENSOR_FILE
from minifier.emit.repro import Repro, guard_gibibytes
from minifier.errors import ExitCode, MinifyError, NoRepro, NothingToReduce, StoppedEarly
from minifier.failure import Kind
from minifier.lifting import is_lifting, keep_forward, lift, limited
from minifier.memory import free_memory
from minifier.probe.bench import StartsThreads
from minifier.processes import TOOL_FAILED, adopt_orphans, interrupt_once, run_stage
from minifier.proving import may_be_flaky, verified_repro
from minifier.reduction.stage import OnProbe, Summary, reduce_case, write_summary
from minifier.report.bundle import write_bundle
from minifier.report.markdown import write_report
from minifier.report.outcome import Outcome, Status, write_result
from minifier.settings import Settings
from minifier.slicing import with_definitions
from minifier.verify import Verification

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the stages say and whom they tell: lines for the user, probes for the progress display."""

    say: Say
    on_probe: OnProbe | None = None


_ENDING: dict[int, type[MinifyError]] = {
    ExitCode.NOTHING: NothingToReduce,
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

    def work() -> int:
        interrupt_once()
        adopt_orphans()
        # Standard output is the script's; what a backend prints when it is imported again is not.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        try:
            summary = reduce_case(source, out, settings, around.on_probe, late=late, doubtful=doubtful)
        except StartsThreads:
            return _STARTS_THREADS
        except KeyboardInterrupt:
            summary = _failed(StoppedEarly("interrupted before the failure was seen again"))
        except MinifyError as error:
            summary = _failed(error)
        write_summary(out, summary)
        return 0

    end = run_stage(work)
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
    and its verification, and why there is none."""

    summary: Summary | None = None
    minimal: Case | None = None
    candidates: tuple[Case, ...] = ()
    repro: Repro | None = None
    check: Verification | None = None
    reason: str = ""


def reduced(case: Case, out: Path, settings: Settings, around: Surroundings) -> Found:
    """The Case reduced; a backward graph's is lifted to a small module's as well, which is better to read. Where
    Dynamo's graph does not show the failure again, the ATen graph is reduced that AOTAutograd made of it."""
    summary = reduce_in_child(out / "case", out, settings, around)
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
    if not candidates:
        return Found(summary, reason=summary.error)
    around.say(f"reduced from {summary.ops_before} ops to {summary.ops_after}; verifying the repro")
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
    try:
        rest = limited(settings, summary)
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
        return summary, [minimal]
    small = load(out / FORWARD / "minimal")
    if minimal is None:
        save(small, out / "minimal")
        return made, [small]
    both = {verdict: count + made.probes.get(verdict, 0) for verdict, count in summary.probes.items()}
    summary = replace(summary, probes=both, seconds=summary.seconds + made.seconds)
    stopped = made.stopped_because
    is_small = not stopped or len(small.graph.ops) <= 2 * len(minimal.graph.ops) + 2
    summary = replace(summary, stopped_because=summary.stopped_because or stopped)
    return summary, [small, minimal] if is_small else [minimal, small]


def _prove(found: Found, case: Case, out: Path, settings: Settings, around: Surroundings) -> None:
    """Looks for a repro; once more as one of a flaky failure where the script runs but shows nothing."""
    timeout = max(60.0, 10 * case.script.seconds)
    reasons: list[str] = []
    for candidate in found.candidates:
        found.repro, found.check, reason = verified_repro(candidate, out, timeout, settings)
        if found.repro is None and found.check is not None and may_be_flaky(candidate, found.check):
            around.say("the repro does not show the failure each time: finding out how often it does")
            place = out / "flaky"
            save(candidate, place / "case")
            again = reduce_in_child(place / "case", place, settings, around, doubtful=True)
            flaky = candidate if again.error else load(place / "minimal")
            shutil.rmtree(place)
            if flaky.rate < 1.0:
                found.minimal = flaky
                save(flaky, out / "minimal")
                found.repro, found.check, reason = verified_repro(found.minimal, out, timeout, settings)
        if found.repro is not None:
            return
        reasons.append(reason)
    found.reason = "; ".join(reasons)


def finish(
    case: Case,
    out: Path,
    settings: Settings,
    around: Surroundings,
    started: float,
    capture_seconds: float,
    others: tuple[str, ...] = (),
) -> Outcome:
    """Reduces the Case saved in out/case, writes the repro, verifies it, reports."""
    if settings.memory is None and case.failure.fingerprint.kind is Kind.OUT_OF_MEMORY:
        # So that each probe fails soon and in the same way, with room beyond what the repro is given.
        settings = replace(settings, memory=min(free_memory(3 / 4) or 2**63, 2 * guard_gibibytes(case) * 2**30) or None)
    found = Found()
    if case.backend.reach is Reach.NONE:
        found.reason = (
            f"the backend {case.backend.name} cannot be imported by a fresh interpreter: {case.backend.reason}. "
            "Hold it under a name of a module that can be imported, or register it in one."
        )
    else:
        found = reduced(case, out, settings, around)
        if found.candidates:
            try:
                _prove(found, case, out, settings, around)
            except KeyboardInterrupt:
                raise StoppedEarly(
                    f"interrupted while the repro was verified; the reduced Case is in {out / 'minimal'}, and "
                    f"`minify reduce {out}` goes on"
                ) from None
    summary, repro = found.summary, found.repro
    status = Status.NO_REPRO
    if repro is not None and summary is not None:
        status = Status.STOPPED if summary.stopped_because else Status.REDUCED
    outcome = Outcome(
        status,
        case,
        found.minimal,
        summary,
        repro,
        found.check,
        found.reason,
        capture_seconds,
        time.monotonic() - started,
        others,
        match=settings.match,
        match_log=settings.match_log,
    )
    _write_all(out, outcome, settings.include_data)
    if repro is not None and repro.tensors is not None and not settings.include_data:
        around.say(
            f"the repro reads real values from {TENSOR_FILE}; they are not in bundle.zip (--include-data puts them in)"
        )
    return outcome


def give_up(
    failing: FailingGraph, out: Path, script: str, started: float, capture_seconds: float, others: tuple[str, ...]
) -> Outcome:
    """Reports a failure whose graph could not be written down."""
    failure, backend = failing.failure, failing.reference or BackendReference(failing.backend, Reach.NONE)
    assert failure is not None
    case = Case(Graph((Node("output", "output", "output", ((),)),)), (), backend, failure, script=Script(script))
    reason = f"its graph cannot be written down: {failing.unsaved}"
    seconds = time.monotonic() - started
    outcome = Outcome(
        Status.NO_REPRO, case, None, None, None, None, reason, capture_seconds, seconds, others, failing.ops
    )
    out.mkdir(parents=True, exist_ok=True)
    _write_all(out, outcome)
    return outcome


def _write_all(out: Path, outcome: Outcome, include_data: bool = False) -> None:
    write_report(out, outcome)
    write_result(out, outcome)
    write_bundle(out, outcome, include_data)


def adopt(captured: Path, out: Path, forward: int | None = None, source: str = "") -> Case:
    """Copies a captured Case, with those that are kept beside it, into the output folder as case/; with it, of a
    backward graph, that of the graph of Dynamo's with this number. `source` is the script's, from which definitions are
    taken that no import reaches."""
    case = with_definitions(load(captured), source)
    save(case, out / "case")
    if forward is not None:
        keep_forward(captured.with_name(str(forward)), case, out / "case")
    for beside in (FORWARD, ATEN):
        if (captured / beside / CASE).exists():
            save(load(captured / beside), out / "case" / beside)
        if (out / "case" / beside / CASE).exists():
            save(with_definitions(load(out / "case" / beside), source), out / "case" / beside)
    return load(out / "case")
