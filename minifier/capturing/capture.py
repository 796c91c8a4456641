"""Run the script in an observed child process, and read which backend calls failed."""

from __future__ import annotations

import gc
import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minifier.capturing import script
from minifier.capturing.captured import Captured, FailingGraph, FellBack, is_of_torch
from minifier.capturing.events import read_events
from minifier.capturing.logged_lines import warnings_logged
from minifier.capturing.running_calls import Running, RunningCalls
from minifier.capturing.script import Program, ScriptEnd, run_program
from minifier.capturing.terms import Terms
from minifier.capturing.watch import STACKS, Watch, failure_of_script, fatal_call, how_it_ended
from minifier.case import BackendReference
from minifier.case.encode import unpack
from minifier.case.store import ATEN, CASE, load, save
from minifier.case.variables import variables
from minifier.failure import Failure, Kind, Stage
from minifier.failure.fingerprint import failure_of
from minifier.failure.stage import stage_shown
from minifier.process.descriptors import close_for_scripts
from minifier.process.forked_step import StepEnd, run_step
from minifier.process.logs import overheard
from minifier.process.memory import limit_data
from minifier.process.orphans import adopt_orphans, kill_orphans
from minifier.process.progress import SILENT, Display, Phase, Progress
from minifier.process.stacks import stack_file

_STEPS = ("compiling", "compiled", "declined", "failed", "ran", "traced", "ended")  # events that follow each other

if TYPE_CHECKING:
    from minifier.capturing.baseline import Baseline


def capture(
    program: Program,
    folder: Path,
    terms: Terms = Terms(),  # noqa: B008 - it is frozen
    display: Display = SILENT,
    meanwhile: Callable[[], object] | None = None,
) -> Captured:
    """Run the program in a forked child; call `meanwhile` in this process during the run.

    Cases of failing calls are sub-folders of `folder`, by number.
    """
    from minifier.capturing.baseline import baseline_of_a_repro

    folder.mkdir(parents=True, exist_ok=True)
    baseline = replace(baseline_of_a_repro(), path=tuple(sys.path[1:]))  # cached, for later steps too
    started = time.monotonic()
    status = RunningCalls()
    watch = Watch(status, folder / STACKS, terms)
    adopt_orphans()
    display.show(Progress(Phase.SCRIPT, subject=program.said))
    try:
        end = run_step(
            lambda: _in_child(program, folder, baseline, terms, status),
            display.tick,
            meanwhile=meanwhile,
            looks=[watch],
            stacks=watch.stacks,
        )
    finally:
        kill_orphans()  # the script's own processes would stay, once for each of its runs
    return _read(folder, end, time.monotonic() - started, status, watch)


def _in_child(program: Program, folder: Path, baseline: Baseline, terms: Terms, status: RunningCalls) -> int:
    from torch.compiler import set_stance

    from minifier.capturing.aot_inductor import ExportedObserver
    from minifier.capturing.observer import Observer
    from minifier.torch_private import (
        note_backward_passes,
        note_inference_mode,
        note_registrations,
        observe_aot_inductor,
        observe_backend_calls,
        observe_tracing,
    )

    script.under_run = True
    close_for_scripts()
    gc.unfreeze()  # the script's garbage collector and temporary folder are as without minify
    tempfile.tempdir = None
    if program.given is not None:
        program.given.set_up()
    stack_file(folder / STACKS)
    note_registrations()
    note_inference_mode()
    observer = Observer(folder, program.name, baseline, terms, status)
    observe_backend_calls(observer)
    observe_tracing(observer.traced)
    exported = ExportedObserver(observer)
    observe_aot_inductor(exported.compiling, exported.loaded)
    note_backward_passes(observer.trains)
    if terms.in_eager:
        set_stance("force_eager")
    environment_before = variables(os.environ)

    def ended(end: ScriptEnd) -> None:
        environment = [pair for pair in variables(os.environ) if pair not in environment_before]
        calls = list(observer.calls.items())
        observer.log.write("ended", **asdict(end), environment=environment, calls=calls)

    if terms.memory is not None:
        limit_data(terms.memory)
    with overheard(observer.heard, logging.WARNING if terms.match_log is None else logging.INFO):
        code = run_program(program, ended)
    status.ended()
    return code


def _read(folder: Path, end: StepEnd, seconds: float, status: RunningCalls, watch: Watch) -> Captured:
    events = read_events(folder)
    failing: list[FailingGraph] = []
    repeated: list[FailingGraph] = []
    seen: set[tuple[str, int | None]] = set()
    final: dict[str, Any] = {}
    compiling: dict[int, dict[str, Any]] = {}  # by graph number
    kept: set[tuple[int, int]] = set()  # (graph, call) whose inputs were saved before the call
    for event in events:
        if event["event"] == "compiling":
            compiling[event["number"]] = event
        elif event["event"] == "kept" and not event["unsaved"]:
            kept.add((event["number"], event["call"]))
        elif event["event"] == "failed":
            key = (event["sentence"], event["ops"])
            failed_before = any(event["number"] == earlier.number for earlier in (*failing, *repeated))
            failed_before = failed_before and (event["number"], event["call"]) not in kept
            (repeated if key in seen else failing).append(_failing(event, failed_before))
            seen.add(key)
        elif event["event"] == "ended":
            final = event
    call = fatal_call(status, end, watch, folder / STACKS)
    not_compared = [(e["number"], e["reason"]) for e in events if e["event"] == "not compared"]
    forwards = [number for number, event in compiling.items() if event["forward"] is None]
    lost = None
    if call is not None and call.stage is Stage.COMPARE:
        lost = forwards.index(call.number) + 1
        what = _sentence(how_it_ended(end, watch, folder, call))
        where = " when what was compiled was called once more" if call.call else " in a run of eager"
        not_compared.append((call.number, what + where))
    elif call is not None and call.number in compiling:
        # A hung call may raise when the stack-dump signal interrupts it: ignore that failure.
        failing = [f for f in failing if (f.number, f.call) != (call.number, call.call) or watch.hung is None]
        has_case = call.number not in {f.number for f in failing} or (call.number, call.call) in kept
        failure = how_it_ended(end, watch, folder, call)
        failing.append(_died(folder, compiling[call.number], call, failure, has_case, kept))
    if not failing and not repeated and (of_torch := _failure_of_torch(folder, events, compiling, kept)) is not None:
        failing.append(of_torch)
    for graph in failing:
        _complete(folder / str(graph.number), seconds - watch.seconds, len(compiling))
    compared = [event for event in events if event["event"] == "compared"]
    return Captured(
        end=end,
        graphs=len(compiling),
        failing=tuple(failing),
        repeated=tuple(repeated),
        seconds=seconds,
        error=final.get("error", ""),
        traceback=final.get("traceback", ""),
        script_status=final.get("status", end.status),
        backends=tuple(dict.fromkeys(e["backend"] for e in compiling.values())),
        environment=tuple((name, value) for name, value in final.get("environment", ())),
        logged=warnings_logged(events),
        slowest=status.slowest,
        trains=any(event["event"] == "backward" for event in events),
        forwards=tuple(forwards),
        trained=frozenset(forwards.index(e["number"]) + 1 for e in events if e["event"] == "trained"),
        calls=tuple((place, count) for place, count in final.get("calls", ())),
        compared=tuple((e["number"], e["call"], e["gradients"]) for e in compared),
        excused=tuple((e["number"], e["call"], line) for e in compared for line in e["excused"]),
        fallbacks=tuple(
            FellBack(e["number"], e["sentence"], e["whole"], e["line"]) for e in events if e["event"] == "fell back"
        ),
        not_compared=tuple(not_compared),
        lost=lost,
        failure=failure_of_script(end, final),
    )


def _sentence(failure: Failure) -> str:
    is_timeout = failure.fingerprint.kind is Kind.TIMEOUT
    return failure.message if is_timeout else f"the process ended ({failure.message})"


def _failing(event: dict[str, Any], failed_before: bool) -> FailingGraph:
    """Return the failure of a "failed" event; if `failed_before`, the Case has an earlier failure of the graph."""
    lost = "the failing call had changed its inputs" if event["changed"] else ""
    if failed_before:
        lost = f"graph {event['number']} had failed before in another way"
    return FailingGraph(
        number=event["number"],
        sentence=event["sentence"],
        traceback=event["traceback"],
        ops=event["ops"],
        backend=event["backend"],
        stage=Stage(event["stage"]),
        call=event["call"],
        unsaved=event["unsaved"],
        failure=unpack(Failure, event["failure"]),
        reference=unpack(BackendReference, event["reference"]),
        inputs_lost=lost,
        forward=event["forward"],
    )


def _failure_of_torch(
    folder: Path,
    events: Sequence[dict[str, Any]],
    compiling: dict[int, dict[str, Any]],
    kept: set[tuple[int, int]],
) -> FailingGraph | None:
    """Return the failure of torch.compile itself that ended the script at a known graph, or None.

    torch.compile failed while tracing an op, or right after a backend had compiled a graph. In the second case the
    backend may be the cause: a backend can leave symbols in Dynamo that no guard can express.
    """
    steps = [event for event in events if event["event"] in _STEPS][-2:]
    if [step["event"] for step in steps] not in (["compiled", "ended"], ["traced", "ended"]):
        return None
    before, last = steps
    if not last.get("links") or not is_of_torch(last["error"], last["traceback"]):
        return None
    number, while_tracing = before["number"], before["event"] == "traced"
    event = before if while_tracing else compiling[number]
    case_folder = folder / str(number)
    if event.get("forward") is not None or event.get("unsaved") or not (case_folder / CASE).exists():
        return None
    links, case = last["links"], load(case_folder)
    failure = failure_of(stage_shown(links), links, last["traceback"], case.graph.free_names)
    save(replace(case, failure=failure, through_dynamo=True, while_tracing=while_tracing), case_folder)
    lost = "" if (number, 0) in kept else f"torch.compile failed after {event['backend']} had compiled graph {number}"
    return FailingGraph(
        number=number,
        sentence=failure.sentence,
        traceback=failure.traceback,
        ops=event["ops"],
        backend=event["backend"],
        stage=failure.fingerprint.stage,
        failure=failure,
        reference=case.backend,
        inputs_lost=lost,
    )


def _died(
    folder: Path, event: dict[str, Any], call: Running, failure: Failure, has_case: bool, kept: set[tuple[int, int]]
) -> FailingGraph:
    """Return the failure of a backend call in which the process ended, and add this failure to the call's saved Case.

    Unless `has_case`, the Case has an earlier failure of the graph and stays unchanged.
    """
    case_folder = folder / str(call.number)
    unsaved = "the graph could not be saved"
    reference = None
    if (case_folder / CASE).exists():
        case = load(case_folder)
        reference, unsaved = case.backend, ""
        if has_case:
            save(replace(case, failure=failure, calls=max(1, call.call)), case_folder)
    what, backend, lost = _sentence(failure), event["backend"], ""
    where = f"while {backend} was compiling"
    if call.call:
        where = f"in call {call.call} of what {backend} had compiled"
        if (call.number, call.call) not in kept:
            lost = f"{what} {where}, whose inputs are not known"
    return FailingGraph(
        number=call.number,
        sentence=f"{what} {where}",
        traceback=failure.traceback,
        ops=event["ops"],
        backend=backend,
        stage=call.stage,
        call=call.call,
        unsaved=unsaved,
        failure=failure,
        reference=reference,
        inputs_lost=lost,
        forward=event["forward"],
    )


def _complete(folder: Path, seconds: float, graphs: int) -> None:
    """Add the script's total time and graph count to a Case and to its ATen Case."""
    for case_folder in (folder, folder / ATEN):
        if (case_folder / CASE).exists():
            case = load(case_folder)
            save(replace(case, script=replace(case.script, seconds=seconds, graphs=graphs)), case_folder)
