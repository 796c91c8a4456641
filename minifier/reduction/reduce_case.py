"""Reduces a Case folder to a smaller Case and a summary, in a process of its own."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from minifier import search
from minifier.capturing.script import Program
from minifier.case import Case, Stored, TensorInput
from minifier.case.store import TENSORS, load, save
from minifier.errors import CannotSave, NoRepro, NothingToReduce
from minifier.failure import Kind, Stage, Tolerance, Verdict
from minifier.failure.likeness import raised_alike
from minifier.probe.children import RunJobs, run_children
from minifier.probe.evaluate import store_inputs
from minifier.probe.prepared_case import PreparedCase, StartsThreads, prepare_case
from minifier.probe.prober import Prober
from minifier.process.interrupts import deaf
from minifier.process.progress import Progress
from minifier.reduction.check import start
from minifier.reduction.composite_ops import reduce_parts
from minifier.reduction.confirm import confirmed, confirmed_hang
from minifier.reduction.inlining import without_wrappers
from minifier.reduction.journal import BEGUN, Known
from minifier.reduction.needs import nearest, with_needs
from minifier.reduction.op_search import reduce_bodies, reduce_ops
from minifier.reduction.other_failures import Other
from minifier.reduction.probe_progress import ProbeProgress
from minifier.reduction.probe_runner import ProbeRunner
from minifier.reduction.reduce_ahead import CallsAheadReducer
from minifier.reduction.simplify import Simplifier
from minifier.reduction.summary import Summary
from minifier.reduction.wrong_ops import find_wrong_ops
from minifier.settings import Settings

NEAREST = "nearest"  # folder of the nearest Case that passes

_MIN_SECONDS_WITHOUT_THREADS = 15.0  # for the first probes of a backend that started threads at import
_MAX_TABLE_SECONDS, _MAX_TABLE_FRACTION = 20.0, 0.2  # of the table of wrong ops; a fraction of the reduction's time

_STOPPED = {
    search.Ending.PROVED: "",
    search.Ending.MAX_PROBES: "the probe budget was used up",
    search.Ending.DEADLINE: "the time budget was used up",
    search.Ending.INTERRUPTED: "interrupted",
}

Show = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class ReductionTask:
    """A reduction of the Case in `source` into `folder`.

    `imports_in_child` leaves the import of the backend to each probe. `doubtful` probes the whole Case many times
    first, because the failure may be flaky. `program` is the captured script, whose arguments the process has; None if
    only its name is known.
    """

    source: Path
    folder: Path
    settings: Settings
    imports_in_child: bool = False
    doubtful: bool = False
    program: Program | None = None


def reduce_case(
    task: ReductionTask,
    show: Show | None = None,
    *,
    elsewhere: Callable[[PreparedCase, Path], Prober | None] = lambda bench, scratch: None,
    run_jobs: RunJobs = run_children,
) -> Summary:
    """Reduce a Case; write minimal/, others/ and journal.jsonl into the task's folder.

    `show` is called with the progress after each probe. `elsewhere` may make a prober that replaces children of this
    process; `run_jobs` runs all other jobs.

    Raises NoRepro or NothingToReduce if the check phase fails, and StartsThreads if `imports_in_child` is needed.
    """
    started = time.monotonic()
    folder, settings = task.folder, task.settings
    case = load(task.source)
    if settings.measure != Tolerance():
        case = replace(case, measure=settings.measure)
    ops_before = len(case.graph.ops)
    bench = prepare_case(case, task.imports_in_child)
    runner = _make_runner(bench, folder, settings, show, elsewhere)
    runner.run_jobs = run_jobs
    runner.doubtful = task.doubtful
    finished = False
    try:
        known = _known(runner)
        without_wrappers(runner)
        case = _start(runner)
        budget = search.Budget.of(settings.max_probes, settings.budget, started)
        case = _with_fewest_calls_ahead(runner, case, budget)
        reduced, result = reduce_ops(runner, case, budget, known.of_ops(runner.repeats))
        ended = search.Ending.INTERRUPTED
        with contextlib.suppress(KeyboardInterrupt):  # the result of the search stays
            reduced, ended = _beyond_ops(runner, case, budget, reduced, result, settings)
        reduced = replace(reduced, rate=runner.rate)
        stopped = _STOPPED[ended]
        simplifier = Simplifier(runner, case, reduced, budget, time.monotonic() - started, settings.wants)
        stopped = _simplify(simplifier, stopped)
        reduced, stopped = _with_simple_calls_ahead(runner, simplifier.case, budget, stopped)
        reduced = _save(runner, runner.as_sighted(reduced), folder / "minimal")
        finished = not stopped
        shutil.rmtree(folder / NEAREST, ignore_errors=True)
        wrong_ops: tuple[tuple[str, str], ...] = ()
        with contextlib.suppress(KeyboardInterrupt):  # the rest is only for the report
            if finished:
                if simplifier.finished and (passing := nearest(simplifier)) is not None:
                    _save(runner, passing, folder / NEAREST)
                wrong_ops = _wrong_ops(runner, case, reduced, time.monotonic() - started)
        return Summary(
            ops_before=ops_before,
            ops_after=len(reduced.graph.ops),
            inputs_after=len(reduced.inputs),
            elements_after=reduced.elements,
            probes=_counted(runner.counts + known.counts),
            one_minimal=ended is search.Ending.PROVED and not known.skipped and not any(runner.unanswered.values()),
            stopped_because=stopped or _skipped(known),
            seconds=time.monotonic() - started,
            others=tuple(_save_others(runner, folder / "others", len(reduced.graph.ops))),
            parting=wrong_ops,
            passes=simplifier.ended,
            needs=tuple(": ".join(pair) for pair in simplifier.rejected) if simplifier.finished else (),
            unanswered=sum(runner.unanswered.values()),
            notes=tuple(f"a probe failed by itself: {fault}" for fault in dict.fromkeys(runner.faults)),
        )
    except (NoRepro, NothingToReduce):  # an answer as well, unless a candidate is not tried again
        finished = not runner.journal.known.skipped
        raise
    finally:
        with deaf():
            runner.journal.close(finished=finished)
            shutil.rmtree(runner.scratch, ignore_errors=True)


def _start(runner: ProbeRunner) -> Case:
    """Return the Case to reduce. Raises StartsThreads if its probes may fail for lack of threads, else as `start`.

    In a fork, a backend that waits for its threads waits forever. That is not the sought hang.
    """
    if not runner.bench.has_threads:
        return start(runner)
    case = runner.bench.case
    if case.failure.fingerprint.kind is Kind.TIMEOUT:
        raise StartsThreads(case.backend.name)
    if runner.timeout is None:
        runner.allow(max(_MIN_SECONDS_WITHOUT_THREADS, 2 * case.script.seconds))
    try:
        return start(runner)
    except NoRepro as error:
        raise StartsThreads(str(error)) from error


def _beyond_ops(
    runner: ProbeRunner, case: Case, budget: search.Budget, reduced: Case, result: search.Result, settings: Settings
) -> tuple[Case, search.Ending]:
    """Confirm the result of the search, then reduce the bodies and decompositions of its ops."""
    if case.failure.fingerprint.kind is Kind.TIMEOUT:
        reduced, result = confirmed_hang(runner, case, budget, reduced, result)
    else:
        reduced, result = confirmed(runner, budget, reduced, result)
    ended = result.ended
    if ended is search.Ending.PROVED and settings.wants("bodies"):
        reduced, ended = reduce_bodies(runner, reduced, budget)
    if ended is search.Ending.PROVED and settings.wants("parts"):
        reduced, ended = reduce_parts(runner, reduced, budget)
    return reduced, ended


def _simplify(simplifier: Simplifier, stopped: str) -> str:
    """Simplify everything except the ops, unless their search was `stopped`; return why this ended early, or ""."""
    simplifier.runner.phase = "simplify"
    try:
        if not stopped:
            simplifier.run()
            stopped = simplifier.stopped
        if simplifier.finished:
            sighted = dict(simplifier.runner.sighted)
            simplifier.case = with_needs(simplifier)
            simplifier.runner.sighted = sighted  # on the Case itself, not on variants of other sizes
    except KeyboardInterrupt:
        stopped = stopped or "interrupted after the ops were proved, before all else was made plain"
    if not simplifier.finished:
        with contextlib.suppress(KeyboardInterrupt):
            simplifier.without_data()
    return stopped


def _with_fewest_calls_ahead(runner: ProbeRunner, case: Case, budget: search.Budget) -> Case:
    reducer = CallsAheadReducer(runner, case, budget)
    reducer.fewest()
    reducer.together()
    return reducer.case


def _with_simple_calls_ahead(runner: ProbeRunner, case: Case, budget: search.Budget, stopped: str) -> tuple[Case, str]:
    """Simplify the calls ahead, unless the reduction was `stopped`; return the Case and why this ended early, or ""."""
    reducer = CallsAheadReducer(runner, case, budget)
    try:
        if not stopped:
            reducer.simplify()
    except KeyboardInterrupt:
        stopped = "interrupted while the calls ahead were made plain"
    return reducer.case, stopped


def _make_runner(
    bench: PreparedCase,
    folder: Path,
    settings: Settings,
    show: Show | None,
    elsewhere: Callable[[PreparedCase, Path], Prober | None],
) -> ProbeRunner:
    runner = ProbeRunner(bench, folder, settings.match, settings.match_log, settings.timeout, settings.memory)
    runner.workers = settings.workers or 1
    runner.may_spread = settings.workers is None
    prober = elsewhere(bench, runner.scratch)
    if prober is not None:
        runner.prober, runner.workers, runner.may_spread = prober, prober.slots or 1, False
    (runner.scratch / "eager").mkdir()
    if show is not None:
        runner.on_probe = ProbeProgress(runner, show)
    return runner


def _known(runner: ProbeRunner) -> Known:
    """Return the answers of an interrupted run. Raises NoRepro if the machine went down on the whole graph."""
    known = runner.journal.known
    if any(entry.phase == "check" for entry in known.skipped):
        raise NoRepro(
            "the last run ended, and perhaps the machine with it, while the whole graph was tried. It is not tried "
            f"again: remove {BEGUN} from the output folder to have it tried nevertheless"
        )
    return known


def _counted(counts: Counter[Verdict]) -> dict[str, int]:
    return {"total": counts.total(), **{verdict.value: counts[verdict] for verdict in Verdict}}


def _skipped(known: Known) -> str:
    count = len(known.skipped)
    return f"{count} candidates were left out, as the process or the machine ended with them before" if count else ""


def _wrong_ops(runner: ProbeRunner, case: Case, reduced: Case, spent: float) -> tuple[tuple[str, str], ...]:
    """Find the wrong ops of a wrong result, in a fraction of the seconds already spent."""
    if case.failure.fingerprint.stage is not Stage.COMPARE:
        return ()
    return find_wrong_ops(runner, case, reduced, min(_MAX_TABLE_SECONDS, max(1.0, _MAX_TABLE_FRACTION * spent)))


def _save(runner: ProbeRunner, case: Case, folder: Path) -> Case:
    """Write the Case, with all its tensors in a file of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / TENSORS
    (result,) = runner.run([lambda: store_inputs(runner.bench, case.inputs, case.graph, path)])
    if result is None:
        raise CannotSave("the inputs of the reduced graph could not be written: " + (runner.faults or ["it died"])[-1])
    stored: dict[str, Any] = result["stored"]
    inputs = tuple(
        replace(i, source=Stored(*stored[i.name])) if isinstance(i, TensorInput) and i.name in stored else i
        for i in case.inputs
    )
    case = replace(case, inputs=inputs, tensors=path if path.exists() else None)
    save(case, folder)
    return case


def _save_others(runner: ProbeRunner, folder: Path, ops: int) -> list[dict[str, Any]]:
    """Write the smallest Case of each other failure; return their descriptions for the summary.

    Failures with fewer than `ops` ops that were raised in the same functions as the sought failure come first: the
    cause may be the same.
    """
    descriptions = []

    def is_near(other: Other) -> bool:
        return len(other.case.graph.ops) < ops and raised_alike(runner.sought, other.failure.fingerprint)

    for number, other in enumerate(sorted(runner.others, key=is_near, reverse=True), 1):
        _save(runner, other.case, folder / str(number))
        descriptions.append({**other.described(), "case": f"others/{number}", "near": is_near(other)})
    return descriptions
