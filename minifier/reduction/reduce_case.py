"""The reduction stage: a Case folder in, a smaller Case folder and a summary out, in a process of its own."""

from __future__ import annotations

import contextlib
import math
import shutil
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from minifier import search
from minifier.case import Case, Stored, TensorInput
from minifier.case.store import TENSORS, load, save
from minifier.errors import CannotSave, NoRepro
from minifier.failure import Kind, Stage, Tolerance, Verdict
from minifier.probe.children import RunJobs, run_children
from minifier.probe.evaluate import store_inputs
from minifier.probe.prepared_case import PreparedCase, prepare_case
from minifier.probe.prober import Prober
from minifier.process.progress import Progress
from minifier.process.steps import deaf
from minifier.reduction.body_search import reduce_bodies
from minifier.reduction.check import start
from minifier.reduction.composite_ops import reduce_parts
from minifier.reduction.flakiness import in_one_call, misjudged
from minifier.reduction.inlining import without_wrappers
from minifier.reduction.journal import BEGUN, Known
from minifier.reduction.nearest import nearest
from minifier.reduction.needs import with_needs
from minifier.reduction.op_search import Limit, deadline_after, reduce_ops
from minifier.reduction.probe_progress import ProbeProgress
from minifier.reduction.probe_runner import ProbeRunner
from minifier.reduction.simplify import Simplifier
from minifier.reduction.summary import Summary
from minifier.reduction.wrong_ops import find_wrong_ops
from minifier.settings import Settings

NEAREST = "nearest"  # the folder of the nearest Case that passes, beside that of the minimal one

_STOPPED = {
    search.Ending.PROVED: "",
    search.Ending.MAX_PROBES: "the probe budget was used up",
    search.Ending.DEADLINE: "the time budget was used up",
    search.Ending.INTERRUPTED: "interrupted",
}

Show = Callable[[Progress], None]


def reduce_case(
    source: Path,
    folder: Path,
    settings: Settings,
    show: Show | None = None,
    *,
    late: bool = False,
    doubtful: bool = False,
    elsewhere: Callable[[PreparedCase, Path], Prober | None] = lambda bench, scratch: None,
    run_jobs: RunJobs = run_children,
) -> Summary:
    """Reduces the Case in `source`; writes minimal/, others/ and journal.jsonl into `folder`.

    `show` is called with the progress after each probe.

    `doubtful` has the whole Case tried many times before anything is concluded, as it may be flaky; `late` leaves
    importing the backend to each probe; `elsewhere` makes what probes in another place than children of
    this process, `run_jobs` runs everything else. Raises NoRepro or NothingToReduce where the check phase ends it, and
    StartsThreads where only `late` will do.
    """
    started = time.monotonic()
    case = load(source)
    if settings.measure != Tolerance():
        case = replace(case, measure=settings.measure)
    ops_before = len(case.graph.ops)
    bench = prepare_case(case, late)
    lab = _lab(bench, folder, settings, show, elsewhere)
    lab.run_jobs = run_jobs
    lab.doubtful = doubtful
    finished = False
    try:
        known = _known(lab)
        without_wrappers(lab)
        case = start(lab)
        limit = Limit(settings.max_probes, deadline_after(settings.budget, started))
        reduced, result = reduce_ops(lab, case, limit, known.of_ops(lab.repeats))
        ended = search.Ending.INTERRUPTED
        with contextlib.suppress(KeyboardInterrupt):  # what the search found stays
            reduced, ended = _beyond_ops(lab, case, limit, reduced, result, settings)
        reduced = replace(reduced, rate=lab.rate)
        stopped = _STOPPED[ended]
        simplifier = Simplifier(lab, case, reduced, limit, time.monotonic() - started, settings.wants)
        stopped = _make_plain(simplifier, stopped)
        reduced = simplifier.case
        reduced = _save(lab, lab.as_sighted(reduced), folder / "minimal")
        finished = not stopped
        shutil.rmtree(folder / NEAREST, ignore_errors=True)
        parting: tuple[tuple[str, str], ...] = ()
        with contextlib.suppress(KeyboardInterrupt):  # all that is needed is there
            if finished:
                _save_nearest(simplifier, folder / NEAREST)
                parting = _parting(lab, case, reduced, time.monotonic() - started)
        return Summary(
            ops_before=ops_before,
            ops_after=len(reduced.graph.ops),
            inputs_after=len(reduced.inputs),
            elements_after=reduced.elements,
            probes=_counted(lab.counts + known.counts),
            one_minimal=ended is search.Ending.PROVED and not known.skipped,
            stopped_because=stopped or _skipped(known),
            seconds=time.monotonic() - started,
            others=tuple(_save_others(lab, folder / "others")),
            parting=parting,
            passes=simplifier.ended,
            needs=tuple(": ".join(each) for each in simplifier.refused) if simplifier.finished else (),
            notes=tuple(f"a probe failed by itself: {fault}" for fault in dict.fromkeys(lab.faults)),
        )
    finally:
        with deaf():
            lab.journal.close(finished=finished)
            shutil.rmtree(lab.scratch, ignore_errors=True)


def _beyond_ops(
    lab: ProbeRunner, case: Case, limit: Limit, reduced: Case, result: search.Result, settings: Settings
) -> tuple[Case, search.Ending]:
    """Tries the result of the search again, then reduces what is inside its ops."""
    if case.failure.fingerprint.kind is Kind.TIMEOUT:
        reduced, result = _patiently(lab, case, limit, reduced, result)
    else:
        reduced, result = _confirmed(lab, limit, reduced, result)
    ended = result.ended
    if ended is search.Ending.PROVED and settings.wants("bodies"):
        reduced, ended = reduce_bodies(lab, reduced, limit)
    if ended is search.Ending.PROVED and settings.wants("parts"):
        reduced, ended = reduce_parts(lab, reduced, limit)
    return reduced, ended


def _make_plain(simplifier: Simplifier, stopped: str) -> str:
    """Makes all beside the ops plain, if the search for these was not `stopped`; tells why it was in the end."""
    simplifier.lab.phase = "simplify"
    try:
        if not stopped:
            simplifier.run()
            stopped = simplifier.stopped
        if simplifier.finished:
            seen = dict(simplifier.lab.sighted)
            simplifier.case = with_needs(simplifier)
            simplifier.lab.sighted = seen  # on the Case itself, not on those of other sizes
    except KeyboardInterrupt:
        stopped = stopped or "interrupted after the ops were proved, before all else was made plain"
    if not simplifier.finished:
        with contextlib.suppress(KeyboardInterrupt):
            simplifier.without_data()
    return stopped


def _lab(
    bench: PreparedCase,
    folder: Path,
    settings: Settings,
    show: Show | None,
    elsewhere: Callable[[PreparedCase, Path], Prober | None],
) -> ProbeRunner:
    lab = ProbeRunner(bench, folder, settings.match, settings.match_log, settings.timeout, settings.memory)
    lab.workers = settings.workers or 1
    lab.may_spread = settings.workers is None
    prober = elsewhere(bench, lab.scratch)
    if prober is not None:
        lab.prober, lab.workers, lab.may_spread = prober, prober.slots or 1, False
    (lab.scratch / "eager").mkdir()
    if show is not None:
        lab.on_probe = ProbeProgress(lab, show)
    return lab


def _save_nearest(simplifier: Simplifier, folder: Path) -> None:
    """Writes the nearest Case that passes, where one is known."""
    passing = nearest(simplifier) if simplifier.finished else None
    if passing is not None:
        _save(simplifier.lab, passing, folder)


def _known(lab: ProbeRunner) -> Known:
    """What an interrupted run knew; raises NoRepro if the machine went down with the whole graph."""
    known = lab.journal.known
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


def _parting(lab: ProbeRunner, case: Case, reduced: Case, spent: float) -> tuple[tuple[str, str], ...]:
    """Where compiled and eager part, of a wrong result, as long as that takes little of what the rest took."""
    if case.failure.fingerprint.stage is not Stage.COMPARE:
        return ()
    return find_wrong_ops(lab, case, reduced, min(_TABLE_SECONDS, max(1.0, _TABLE_SHARE * spent)))


def _confirmed(lab: ProbeRunner, limit: Limit, reduced: Case, result: search.Result) -> tuple[Case, search.Result]:
    """Tries the reduced graph some times more. If the failure shows less often than was believed, ops may be left that
    it does not need: the search goes on from there with the better rate."""
    for _ in range(_ROUNDS):
        if not result.one_minimal:
            break
        lab.phase = "check"
        reduced = in_one_call(lab, reduced)
        if not misjudged(lab, reduced):
            break
        reduced, result = reduce_ops(lab, reduced, limit, {})
    return reduced, result


_MORE_PATIENT = 5  # times the timeout for which a hang has to last in the end
_ROUNDS = 3
_TABLE_SECONDS, _TABLE_SHARE = 20.0, 0.2  # that a table for the report may take, of what the rest took


def _patiently(
    lab: ProbeRunner, case: Case, limit: Limit, reduced: Case, result: search.Result
) -> tuple[Case, search.Result]:
    """Waits much longer for the reduced hang. What ends then was only slow: the timeout was too short for this
    backend, and the search is made again with a better one."""
    for _ in range(_ROUNDS):
        timeout = lab.limits.seconds
        lab.phase = "check"
        lab.allow(_MORE_PATIENT * timeout)
        (judged,) = lab.probe([reduced])
        if judged.verdict is Verdict.SAME or result.ended is not search.Ending.PROVED:
            lab.allow(timeout)
            return replace(reduced, patience=_patience(timeout)), result
        lab.allow(10 * judged.seconds)
        reduced, result = reduce_ops(lab, case, limit, {})
    raise NoRepro("every timeout tried was too short: the backend takes ever longer, but ends")


def _patience(timeout: float) -> float:
    """Seconds after which the repro says that it hangs: a round number, well above what an innocent one takes."""
    return float(max(10, math.ceil(_MORE_PATIENT * timeout / 10) * 10))


def _save(lab: ProbeRunner, case: Case, folder: Path) -> Case:
    """Writes the Case with all its tensors in a file of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / TENSORS
    (result,) = lab.run([lambda: store_inputs(lab.bench, case.inputs, case.graph, path)])
    if result is None:
        raise CannotSave("the inputs of the reduced graph could not be written: " + (lab.faults or ["it died"])[-1])
    stored: dict[str, Any] = result["stored"]
    inputs = tuple(
        replace(i, source=Stored(*stored[i.name])) if isinstance(i, TensorInput) and i.name in stored else i
        for i in case.inputs
    )
    case = replace(case, inputs=inputs, tensors=path if path.exists() else None)
    save(case, folder)
    return case


def _save_others(lab: ProbeRunner, folder: Path) -> list[dict[str, Any]]:
    """Writes each failure that was met and not followed, with its smallest graph."""
    found = []
    for number, other in enumerate(lab.others, 1):
        place = folder / str(number)
        _save(lab, other.case, place)
        found.append(
            {
                "type": other.failure.type,
                "message": other.failure.message,
                "stage": other.failure.fingerprint.stage.value,
                "kind": other.failure.fingerprint.kind.value,
                "sightings": other.sightings,
                "ops": len(other.case.graph.ops),
                "case": f"others/{number}",
            }
        )
    return found
