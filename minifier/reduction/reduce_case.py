"""Reduces a Case folder to a smaller Case and a summary, in a process of its own."""

from __future__ import annotations

import contextlib
import shutil
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from minifier import search
from minifier.data.case import Case
from minifier.data.case.calls import attributes_as_inputs
from minifier.data.case.run_folder import RunFolder
from minifier.data.failure import Aspect, Kind, Stage, Tolerance, Verdict
from minifier.data.settings import Settings
from minifier.errors import MachineFailed, MinifyError, NoRepro, NothingToReduce, StoppedEarly, said_of_trace
from minifier.process.interrupts import deaf
from minifier.process.machine import machine_failure
from minifier.process.progress import Progress, counted
from minifier.reduction.check import check, confirmed, confirmed_hang
from minifier.reduction.flakiness import last_certain, misjudged
from minifier.reduction.guilty_ops import at_guilty_op, guilt_of, said_of_guilt
from minifier.reduction.journal import BEGUN, Known
from minifier.reduction.needs import Needs, measured_needs, nearest
from minifier.reduction.op_search import reduce_bodies, reduce_ops, without_wrappers
from minifier.reduction.probe.children import RunJobs, run_children
from minifier.reduction.probe.prepared_case import StartsThreads, prepare_case
from minifier.reduction.probe.verdicts import ForkingProber, MakeProber
from minifier.reduction.probe_runner import Atom, ProbeRunner, hidden_by_others, with_empty_graph
from minifier.reduction.reduce_earlier import EarlierCallsReducer
from minifier.reduction.simplify_and_prove import simplified
from minifier.reduction.summary import (
    OtherFailure,
    Summary,
    as_sighted,
    by_verdict,
    save_others,
    save_reduced,
    with_forms,
)

# What eager's values ahead of ops cannot mend: eager computes nothing, and memory that is written again is the call's.
_OF_THE_CALL = {Aspect.NO_EXCEPTION.value, Aspect.OVERWRITTEN.value}

_LEFT_OUT = " left out, as the process or the machine ended with them before"

_SHARE_BEFORE_WAITS = 0.5  # of the seconds for a hang: the search over ops ends, so that what is left is waited for
_MIN_SECONDS_WITHOUT_THREADS = 15.0  # for the first probes of a backend that started threads at import

Show = Callable[[Progress], object]


@dataclass(frozen=True, slots=True)
class ReductionTask:
    """A reduction of a Case into `folder`.

    `imports_in_child` leaves the import of the backend to each probe. `doubtful` probes the whole Case many times
    first, because the failure may be flaky. `backend` is the value of `backend=` if this process has it.
    """

    case: Case
    folder: Path
    settings: Settings
    imports_in_child: bool = False
    doubtful: bool = False
    backend: Any = None


def reduce_case(
    task: ReductionTask,
    show: Show = lambda _progress: None,
    *,
    make_prober: MakeProber = ForkingProber,
    run_jobs: RunJobs = run_children,
) -> Summary:
    """Reduce a Case; write minimal/, others/ and journal.jsonl into the task's folder.

    `show` is called with the progress after each probe. `make_prober` and `run_jobs` are as of ProbeRunner.

    An error of this tool ends no more than the step, if the reduction can do without the step, else the reduction, with
    the smallest Case that was seen to fail, if there is one; the summary has the traceback. Raises NoRepro or
    NothingToReduce if the check phase fails, and StartsThreads if `imports_in_child` is needed.
    """
    started = time.monotonic()
    folder, settings = RunFolder(task.folder), task.settings
    case = task.case if settings.measure == Tolerance() else replace(task.case, measure=settings.measure)
    ops_before = len(case.graph.ops)
    prepared = prepare_case(case, task.imports_in_child, task.backend)
    workers, doubtful = settings.workers or 1, task.doubtful
    runner = ProbeRunner(
        prepared, task.folder, settings, workers, show, doubtful=doubtful, make_prober=make_prober, run_jobs=run_jobs
    )
    finished = False
    try:
        summary, finished = _reduce(runner, task, started)
        return replace(summary, ops_before=ops_before)
    except (NoRepro, NothingToReduce):  # also an answer, unless a candidate was left out
        finished = not runner.journal.known.skipped
        raise
    except Exception as error:
        if runner.best is None or isinstance(error, MinifyError) or machine_failure(error) is not None:
            raise
        summary = _best_so_far(runner, runner.best, folder, traceback.format_exc())
        return replace(summary, ops_before=ops_before, seconds=time.monotonic() - started)
    finally:
        with deaf():
            runner.journal.close(finished=finished)
            shutil.rmtree(runner.scratch, ignore_errors=True)


def _reduce(runner: ProbeRunner, task: ReductionTask, started: float) -> tuple[Summary, bool]:
    """Reduce the runner's Case; return the summary, and whether the reduction came to its end."""
    folder, settings = RunFolder(task.folder), task.settings
    known = _known(runner)
    runner.after("wrappers", without_wrappers, None, runner)
    case = _start(runner)
    seconds, is_hang = settings.seconds_for(case.script.seconds), case.failure.fingerprint.kind is Kind.TIMEOUT
    share = _SHARE_BEFORE_WAITS if is_hang and settings.budget is None else 1.0
    budget = search.Budget.of(settings.max_probes, share * seconds, started)
    reduced, result = reduce_ops(runner, case, budget)
    guilty: Atom = ()
    ended = search.Ending.INTERRUPTED
    with contextlib.suppress(KeyboardInterrupt):  # the result of the search stays
        sought = case.failure.fingerprint
        of_call = sought.message in _OF_THE_CALL or case.measure.predicate  # which judges the whole graph's results
        if sought.stage is Stage.COMPARE and not of_call:
            arguments = runner, case, budget, reduced, result
            reduced, result, guilty = runner.after("guilty op", at_guilty_op, (reduced, result, ()), *arguments)
        reduced, ended = _beyond_ops(runner, budget, reduced, result, settings)
    reduced = replace(with_empty_graph(runner, reduced), rate=runner.rate)
    try:
        case, reduced = runner.after("parameters", _with_parameters, (case, reduced), runner, case, reduced)
    except KeyboardInterrupt:
        ended = search.Ending.INTERRUPTED
    if settings.budget is None:  # the passes then have a limit of their own, at which they end in silence
        budget = replace(budget, deadline=None)
    simplifier, ended, stopped = simplified(runner, case, reduced, ended, budget, settings, seconds)
    reduced, stopped = _with_simple_calls(runner, simplifier.case, budget, stopped)
    simplifier.case = reduced
    needs = Needs() if stopped else runner.after("needs", measured_needs, Needs(), simplifier)
    reduced = replace(reduced, rate=runner.rate, needs=tuple(needs.sentences))
    reduced = save_reduced(runner, as_sighted(runner, reduced), folder.minimal)
    finished = not stopped
    shutil.rmtree(folder.nearest, ignore_errors=True)
    others: list[OtherFailure] = []
    with contextlib.suppress(KeyboardInterrupt), runner.going_on("nearest"):
        is_whole = finished and not needs.interrupted and simplifier.finished
        variants = (needs.passing or simplifier.passing_variants) if is_whole else []
        if (passing := nearest(simplifier.case, variants)) is not None:
            save_reduced(runner, passing, folder.nearest)
    with contextlib.suppress(KeyboardInterrupt), runner.going_on("other failures"):
        others = save_others(runner, folder, reduced)
    untold = sum(runner.untold.values(), Counter[Verdict]())
    is_proved = ended is search.Ending.PROVED and not known.skipped
    summary = Summary(
        ops_before=len(case.graph.ops),
        ops_after=len(reduced.graph.ops),
        inputs_after=len(reduced.inputs),
        elements_after=reduced.elements,
        probes=by_verdict(runner.counts + known.counts),
        one_minimal=is_proved and not untold,
        stopped_because=stopped or (f"{counted(len(known.skipped), 'candidate')}{_LEFT_OUT}" if known.skipped else ""),
        seconds=time.monotonic() - started,
        others=tuple(others),
        guilt=guilt_of(case, guilty, reduced).value if guilty else "",
        cause=said_of_guilt(case, guilty, reduced) if guilty and len(reduced.graph.ops) < len(case.graph.ops) else "",
        passes=simplifier.ended,
        needs=tuple(needs.changes),
        unanswered=untold[Verdict.UNRESOLVED] + len(simplifier.open),
        unanswered_ops=untold[Verdict.UNRESOLVED],
        invalid_ops=untold[Verdict.INVALID],
        unrecorded=runner.unrecorded,
        notes=tuple(f"a probe failed by itself: {fault}" for fault in dict.fromkeys(runner.faults)),
        hidden=hidden_by_others(runner.verdicts),
        errors=tuple(runner.left_out.values()),
    )
    return summary, finished


def _with_parameters(runner: ProbeRunner, case: Case, reduced: Case) -> tuple[Case, Case]:
    """Return the whole and the reduced Case with the tensors of the graph as parameters of its function.

    They are probed through torch.compile, which makes attributes of parameters where the backend asks for that. Both
    are unchanged if the reduced Case then does not show the failure.
    """
    if not reduced.graph.attributes:
        return case, reduced
    whole, changed = (replace(attributes_as_inputs(each), through_dynamo=True) for each in (case, reduced))
    after = runner.prepared.case
    runner.phase = "parameters"
    runner.adopt(changed)
    try:
        if runner.probe([changed])[0].verdict is not Verdict.SAME:
            return case, reduced
        after = whole
    finally:
        runner.adopt(after)
    return whole, changed


def _best_so_far(runner: ProbeRunner, best: Case, folder: RunFolder, trace: str) -> Summary:
    """Write the smallest Case that was seen to fail, after an error of this tool; return a summary without its time."""
    best = save_reduced(runner, with_forms(runner, replace(best, rate=runner.rate)), folder.minimal)
    shutil.rmtree(folder.nearest, ignore_errors=True)
    probes, why = by_verdict(runner.counts + runner.journal.known.counts), said_of_trace(trace)
    ops, errors = len(best.graph.ops), (*runner.left_out.values(), trace)
    return Summary(ops, ops, len(best.inputs), best.elements, probes, False, why, 0.0, errors=errors)


def _start(runner: ProbeRunner) -> Case:
    """Return the Case to reduce. Raises StartsThreads if its probes may fail for lack of threads, else as `check`.

    In a fork, a backend that waits for its threads waits forever. That is not the sought hang.
    """
    if not runner.prepared.has_threads:
        return check(runner)
    case = runner.prepared.case
    if case.failure.fingerprint.kind is Kind.TIMEOUT:
        raise StartsThreads(case.backend.name)
    if runner.settings.timeout is None:
        runner.allow(max(_MIN_SECONDS_WITHOUT_THREADS, 2 * case.script.seconds))
    try:
        return check(runner)
    except MinifyError as error:
        on_device = not case.is_on_host and not isinstance(error, (StoppedEarly, MachineFailed))
        if on_device or isinstance(error, NoRepro):  # if a device was started before the fork, even eager fails
            raise StartsThreads(str(error)) from error
        raise


def _beyond_ops(
    runner: ProbeRunner, budget: search.Budget, reduced: Case, result: search.Result, settings: Settings
) -> tuple[Case, search.Ending]:
    if reduced.failure.fingerprint.kind is Kind.TIMEOUT:
        reduced, result = confirmed_hang(runner, budget, reduced, result)
    else:
        reduced, result = confirmed(runner, budget, reduced, result)
    ended = result.ended
    if ended is search.Ending.PROVED and settings.wants("bodies"):
        reduced, ended = runner.after("bodies", reduce_bodies, (reduced, ended), runner, reduced, budget)
    return reduced, ended


def _with_simple_calls(runner: ProbeRunner, case: Case, budget: search.Budget, stopped: str) -> tuple[Case, str]:
    """Simplify the earlier calls, unless `stopped` says that the reduction was; return the Case and that reason.

    They stay if the failure would become flaky.
    """
    reducer, seemed_certain = EarlierCallsReducer(runner, case, budget), runner.repeats == 1
    try:
        if not stopped:
            runner.after("earlier calls", reducer.simplify, None)
        if reducer.case != case and seemed_certain and misjudged(runner, reducer.case, again=True):
            reducer.case = last_certain(runner, [case]) or reducer.case
    except KeyboardInterrupt:
        stopped = "interrupted while the earlier calls were simplified"
    return reducer.case, stopped


def _known(runner: ProbeRunner) -> Known:
    """Return the answers of an interrupted run. Raises NoRepro if the machine went down on the whole graph."""
    if any(entry.phase == "check" for entry in runner.journal.known.skipped):
        raise NoRepro(
            "the last run ended, and perhaps the machine with it, while the whole graph was tried. It is not tried "
            f"again: remove {BEGUN} from the output folder to have it tried nevertheless"
        )
    return runner.journal.known
