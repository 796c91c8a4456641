"""Read the outcome of a script's run from what its process wrote and how it ended; the calls before a failing call."""

from __future__ import annotations

import contextlib
import signal
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from minifier.capturing.captured import Captured, FailingGraph, FellBack, complete, is_of_torch, read_events
from minifier.capturing.running_calls import Running, RunningCalls
from minifier.capturing.script_limits import STACKS, Watch, failure_of_script, fatal_call, how_it_ended
from minifier.capturing.silent_fallbacks import warnings_logged
from minifier.data.case import BackendReference, Call, Case
from minifier.data.case.calls import call_of, called
from minifier.data.case.graph import tensor_keys
from minifier.data.case.serial import unpack
from minifier.data.case.store import CASE, load, save
from minifier.data.case.symbolic_sizes import is_symbolic, specialised
from minifier.data.failure import Failure, Kind, Stage
from minifier.data.failure.evidence import stage_shown
from minifier.data.failure.fingerprint import failure_of
from minifier.data.losses import heard
from minifier.errors import UsageError
from minifier.process.forked_step import StepEnd

_STEPS = ("compiling", "compiled", "declined", "failed", "ran", "traced", "ended")  # events that follow each other


def read_run(folder: Path, end: StepEnd, seconds: float, status: RunningCalls, watch: Watch) -> Captured:
    """Return the outcome of a run that ended like this, from the events and Cases in its folder.

    `seconds` is how long the run lasted; `status` and `watch` observed it.
    """
    events = read_events(folder)
    named: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        named[event["event"]].append(event)
    for event in named["unsupported"]:
        heard(event["sentence"])
    compiling = {event["number"]: event for event in named["compiling"]}
    # (graph, call) whose inputs were saved before the call
    kept = {(event["number"], event["call"]) for event in named["kept"] if not event["unsaved"]}
    failing, repeated = _failures(folder, named["failed"], compiling, kept)
    final = named["ended"][-1] if named["ended"] else {}
    if watch.has_lingered:
        end = StepEnd(final.get("status"), None, end.interrupted)
    call = fatal_call(status, end, watch, folder / STACKS)
    not_compared = [(event["number"], event["reason"]) for event in named["not compared"]]
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
    for each in failing:
        if not each.unsaved:
            complete(each.folder, seconds - watch.seconds, status.slowest, len(compiling))
    compared = named["compared"]
    told = [(*e["furthest"], e["number"], e["call"]) for e in compared if "furthest" in e]
    _, sentence, number, place = max(told, default=(0.0, "", 0, 0))  # the one that takes the largest share of its limit
    return Captured(
        folder=folder,
        end=end,
        graphs=len(compiling),
        failing=tuple(failing),
        repeated=tuple(repeated),
        seconds=seconds,
        error=final.get("error", ""),
        traceback=final.get("traceback", ""),
        script_status=final.get("status", end.status),
        backends=tuple(dict.fromkeys(e["reference"]["name"] for e in compiling.values())),
        declined=tuple(event["type"] for event in named["declined"]),
        environment=tuple((name, value) for name, value in final.get("environment", ())),
        logged=warnings_logged(named["logged"]),
        slowest=status.slowest,
        forwards=tuple(forwards),
        trained=frozenset(forwards.index(event["number"]) + 1 for event in named["trained"]),
        changed=frozenset(forwards.index(event["number"]) + 1 for event in named["changed"]),
        calls=tuple((place, count) for place, count in final.get("calls", ())),
        compared=tuple((e["number"], e["call"], e["gradients"]) for e in compared),
        excused=tuple((e["number"], e["call"], line) for e in compared for line in e["excused"]),
        furthest=f"graph {number}, call {place}: {sentence}" if sentence else "",
        fallbacks=tuple(FellBack(**event["fallback"]) for event in named["fell back"]),
        not_compared=tuple(not_compared),
        bounded=next((event["seconds"] for event in named["bounded"]), 0.0),
        lost=lost,
        path=tuple(final.get("path", ())),
        children=final.get("children", 0.0),
        failure=failure_of_script(end, final),
        was_killed=end.signal == signal.SIGKILL and not (watch.hung or watch.exhausted or end.timed_out),
        has_lingered=watch.has_lingered,
        slips=tuple(dict.fromkeys(event["traceback"] for event in named["slip"])),
    )


def _failures(
    folder: Path,
    failed: Sequence[dict[str, Any]],
    compiling: Mapping[int, dict[str, Any]],
    kept: Collection[tuple[int, int]],
) -> tuple[list[FailingGraph], list[FailingGraph]]:
    """Return the logged failures, and those with the sentence and op count of an earlier failure.

    Graphs whose inputs were saved before a call are in `kept`, with the call.
    """
    failing: list[FailingGraph] = []
    repeated: list[FailingGraph] = []
    seen: set[tuple[str, int | None]] = set()
    for event in failed:
        number, call, graph = event["number"], event["call"], compiling[event["number"]]
        if event["instead"]:
            failing = [each for each in failing if each.number != number]
            repeated = [each for each in repeated if each.number != number]
        lost = event["inputs_lost"]
        if (number, call) not in kept and number in {each.number for each in (*failing, *repeated)}:
            lost = f"graph {number} had failed before in another way"
        failure = unpack(Failure, event["failure"])
        key = event["sentence"], graph["ops"]
        failures = repeated if key in seen else failing
        failures.append(_failing(folder, graph, event["sentence"], failure, call, event["unsaved"], lost))
        seen.add(key)
    return failing, repeated


def _sentence(failure: Failure) -> str:
    is_timeout = failure.fingerprint.kind is Kind.TIMEOUT
    return failure.message if is_timeout else f"the process ended ({failure.message})"


def _failing(
    folder: Path, graph: dict[str, Any], sentence: str, failure: Failure, call: int, unsaved: str, lost: str
) -> FailingGraph:
    """Return the failure of a call of a graph, which the event of its compilation or its trace describes."""
    reference = unpack(BackendReference, graph["reference"])
    place, forward = folder / str(graph["number"]), graph["forward"]
    return FailingGraph(place, sentence, failure, reference, graph["ops"], call, unsaved, lost, forward)


def _failure_of_torch(
    folder: Path, events: Sequence[dict[str, Any]], compiling: dict[int, dict[str, Any]], kept: set[tuple[int, int]]
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
    if event["forward"] is not None or event.get("unsaved") or not (case_folder / CASE).exists():
        return None
    links, case = last["links"], load(case_folder)
    failure = failure_of(stage_shown(links), links, last["traceback"], case.graph.free_names)
    save(replace(case, failure=failure, through_dynamo=True, while_tracing=while_tracing), case_folder)
    backend = event["reference"]["name"]
    lost = "" if (number, 0) in kept else f"torch.compile failed after {backend} had compiled graph {number}"
    return _failing(folder, event, failure.sentence, failure, 0, "", lost)


def _died(
    folder: Path, event: dict[str, Any], call: Running, failure: Failure, has_case: bool, kept: set[tuple[int, int]]
) -> FailingGraph:
    """Return the failure of a backend call in which the process ended, and add this failure to the call's saved Case.

    Unless `has_case`, the Case has an earlier failure of the graph and stays unchanged.
    """
    case_folder = folder / str(call.number)
    unsaved = "the graph could not be saved"
    if (case := _loaded(case_folder)) is not None:
        unsaved = ""
        if has_case:
            save(called(replace(case, failure=failure), max(1, call.call)), case_folder)
    what, backend, lost = _sentence(failure), event["reference"]["name"], ""
    where = f"while {backend} was compiling"
    if call.call:
        where = f"in call {call.call} of what {backend} had compiled"
        if (call.number, call.call) not in kept:
            lost = f"{what} {where}, whose inputs are not known"
    return _failing(folder, event, f"{what} {where}", failure, call.call, unsaved, lost)


@dataclass(frozen=True, slots=True)
class CapturedCallAhead:
    """A call of the backend ahead of the failing call, and its captured Case.

    `late`: its graph was compiled after the graph of the failing call.
    """

    case: Case
    call: Call
    late: bool


def read_calls_ahead(graphs: Path, number: int, call: int) -> tuple[CapturedCallAhead, ...]:
    """Return the calls of the same backend ahead of the call `call` of graph `number`, in their order.

    Symbolic sizes have become concrete. Graphs that could not be saved, or hold tensors of their own, are left out.
    """
    log = _LogAhead(graphs, number, call)
    backend = _identity(load(graphs / str(number)).backend)
    found = []
    for other in log.compiled:
        if (case := _loaded(graphs / str(other))) is None:
            continue
        if other not in log.of_same_function and _identity(case.backend) != backend:
            continue
        case = specialised(case)
        made = call_of(case, Call(times=max(1, log.runs[other]), backward=other in log.backward))
        if not is_symbolic(case) and not any(tensor_keys(case.graph)):
            found.append(CapturedCallAhead(case, made, other in log.late))
    return tuple(found)


class _LogAhead:
    """The events of a capture up to a failing call.

    `compiled` are the numbers of Dynamo's other graphs that were compiled by any backend, `late` the graphs compiled
    after the failing graph. `runs` counts the logged calls of each graph. `backward` are the graphs whose backward
    graph was compiled. `of_same_function` are the graphs compiled by the object that compiled the failing graph.
    """

    def __init__(self, graphs: Path, number: int, call: int) -> None:
        self.compiled: list[int] = []
        self.late: set[int] = set()
        self.runs: Counter[int] = Counter()
        self.backward: set[int] = set()
        forwards: dict[int, int | None] = {}
        functions: dict[int, int] = {}
        for event in read_events(graphs):
            name, of = event["event"], event.get("number", 0)
            if (name, of, event.get("call")) == ("failed", number, call):
                break
            if name == "compiling":
                forwards[of], functions[of] = event["forward"], event.get("of", 0)
            elif name == "ran":
                self.runs[of] += 1
            elif name == "compiled" and (forward := forwards.get(of)) is not None:
                self.backward.add(forward)
            elif name == "compiled":
                self.compiled.append(of)
        own = (number, forwards.get(number))
        begun = next((place for place, each in enumerate(self.compiled) if each in own), len(self.compiled))
        self.late.update(self.compiled[begun:])
        self.compiled = [each for each in self.compiled if each not in own]
        function = next((functions[each] for each in reversed(own) if each is not None and functions.get(each)), None)
        self.of_same_function = {each for each in self.compiled if functions[each] == function}


def _loaded(folder: Path) -> Case | None:
    if (folder / CASE).exists():
        with contextlib.suppress(UsageError):  # its own tensors were not kept
            return load(folder)
    return None


def _identity(backend: BackendReference) -> BackendReference:
    return replace(backend, dynamic=None, distribution=None, version=None, folders=())


def with_calls_ahead(case: Case, found: tuple[CapturedCallAhead, ...]) -> Case:
    """Return the Case with these calls ahead, and the imports that their graphs need."""
    scripts = [case.script, *(each.case.script for each in found)]
    script = replace(
        case.script,
        imports=tuple(dict.fromkeys(line for each in scripts for line in each.imports)),
        folders=tuple(dict.fromkeys(folder for each in scripts for folder in each.folders)),
        ops=tuple(dict.fromkeys(op for each in scripts for op in each.ops)),
    )
    late = [each.call for each in found if each.late]
    return replace(case, script=script, before=(*(each.call for each in found if not each.late), *case.before, *late))
