"""The capture stage: the script in a child with the observer in place, and what came of it."""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from minifier.capture.script import Program, run_program
from minifier.case import BackendReference
from minifier.case.encode import unpack
from minifier.case.store import load, save
from minifier.case.variables import variables
from minifier.failure import Failure, Fingerprint, Kind, Stage
from minifier.processes import StageEnd, run_stage


@dataclass(frozen=True, slots=True)
class FailingGraph:
    """A backend call that failed: its number among the script's graphs, and the failure in a sentence.

    `unsaved` says what kept the Case from being written; `inputs_changed` that the failing call had
    changed its inputs before they could be saved.
    """

    number: int
    sentence: str
    traceback: str
    ops: int | None
    backend: str
    stage: Stage
    call: int = 0
    unsaved: str = ""
    failure: Failure | None = None
    reference: BackendReference | None = None
    inputs_changed: bool = False


@dataclass(frozen=True, slots=True)
class Captured:
    """What running the script showed. `environment` has the variables of torch's that the script itself set:
    too late for a torch that was there before it."""

    end: StageEnd
    graphs: int
    failing: tuple[FailingGraph, ...]
    seconds: float
    error: str = ""
    traceback: str = ""
    script_status: int | None = None
    backends: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()


def capture(
    program: Program, folder: Path, crash_report: Callable[[str], None], *, keep_inputs: bool = False
) -> Captured:
    """Runs the program in a forked child. Cases of failing calls are sub-folders of `folder`, by number."""
    from minifier.baseline import baseline_of_a_repro

    folder.mkdir(parents=True, exist_ok=True)
    baseline_of_a_repro()  # once, for the child and for what follows
    started = time.monotonic()
    ordinary = tuple(sys.path[1:])
    end = run_stage(
        lambda: _in_child(program, folder, ordinary, keep_inputs),
        crash_report,
        meanwhile=lambda: importlib.import_module("minifier.pipeline"),  # needed next; the script keeps one core
    )
    return _read(folder, end, time.monotonic() - started)


def _in_child(program: Program, folder: Path, ordinary: Sequence[str], keep_inputs: bool) -> int:
    from minifier.baseline import baseline_of_a_repro
    from minifier.capture.observer import Observer
    from minifier.torch_private import note_inference_mode, note_registrations, observe_backend_calls

    gc.unfreeze()  # the script's own collector and temporary folder are as they would be
    tempfile.tempdir = None
    note_registrations()
    note_inference_mode()
    observer = Observer(folder, program.name, ordinary, baseline_of_a_repro(), keep_inputs)
    observe_backend_calls(observer)
    before = variables(os.environ)

    def ended(status: int, error: str, text: str) -> None:
        environment = [pair for pair in variables(os.environ) if pair not in before]
        observer.log.write("ended", status=status, error=error, traceback=text, environment=environment)

    return run_program(program, ended)


def _events(path: Path) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line]


def _read(folder: Path, end: StageEnd, seconds: float) -> Captured:
    events = _events(folder / "events.jsonl")
    failing: list[FailingGraph] = []
    seen: set[tuple[str, int | None]] = set()
    pending: dict[int, dict[str, Any]] = {}  # a backend may compile something itself: calls nest
    final: dict[str, Any] = {}
    for event in events:
        if event["event"] == "compiling":
            pending[event["number"]] = event
        elif event["event"] in ("compiled", "declined"):
            pending.pop(event["number"], None)
        elif event["event"] == "failed":
            pending.pop(event["number"], None)
            key = (event["sentence"], event["ops"])
            if key not in seen:
                seen.add(key)
                failing.append(_failing(event))
        elif event["event"] == "ended":
            final = event
    if pending and not final:
        failing.append(_died(folder, pending[max(pending)], end))
    graphs = sum(event["event"] == "compiling" for event in events)
    for graph in failing:
        _complete(folder / str(graph.number), seconds, graphs)
    return Captured(
        end=end,
        graphs=graphs,
        failing=tuple(failing),
        seconds=seconds,
        error=final.get("error", ""),
        traceback=final.get("traceback", ""),
        script_status=final.get("status", end.status),
        backends=tuple(dict.fromkeys(e["backend"] for e in events if e["event"] == "compiling")),
        environment=tuple((name, value) for name, value in final.get("environment", ())),
    )


def _failing(event: dict[str, Any]) -> FailingGraph:
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
        inputs_changed=bool(event["changed"]),
    )


def _died(folder: Path, event: dict[str, Any], end: StageEnd) -> FailingGraph:
    """The process ended inside a backend call: the Case was written ahead, only its failure is missing."""
    kind, how = Kind.EXIT, f"exit status {end.status}"
    if end.signal is not None:
        kind, how = Kind.SIGNAL, signal.Signals(end.signal).name
    failure = Failure(Fingerprint(Stage.COMPILE, kind, message=how), kind.value, how)
    case_folder = folder / str(event["number"])
    unsaved = "the graph could not be written down"
    if (case_folder / "case.json").exists():
        case = replace(load(case_folder), failure=failure)
        save(case, case_folder)
        unsaved = ""
    sentence = f"the process ended ({how}) while {event['backend']} was compiling"
    return FailingGraph(
        event["number"],
        sentence,
        "",
        event["ops"],
        event["backend"],
        Stage.COMPILE,
        unsaved=unsaved,
        failure=failure,
    )


def _complete(folder: Path, seconds: float, graphs: int) -> None:
    """Adds to a Case what was known only when the script had ended."""
    if (folder / "case.json").exists():
        case = load(folder)
        save(replace(case, script=replace(case.script, seconds=seconds, graphs=graphs)), folder)
