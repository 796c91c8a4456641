"""Run the script in an observed child process, and read which backend calls failed."""

from __future__ import annotations

import functools
import gc
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from minifier.capturing import script
from minifier.capturing.captured import Captured
from minifier.capturing.read_run import read_run
from minifier.capturing.running_calls import RunningCalls
from minifier.capturing.script import Program, ScriptEnd, run_program
from minifier.capturing.terms import Terms
from minifier.capturing.watch import STACKS, Watch
from minifier.case.variables import variables
from minifier.interfaces.losses import on_loss
from minifier.process.descriptors import close_for_scripts
from minifier.process.dropped_output import output_dropped
from minifier.process.forked_step import run_step
from minifier.process.import_path import ordinary_path
from minifier.process.logs import overheard
from minifier.process.memory import limit_data
from minifier.process.orphans import kill_orphans
from minifier.process.progress import SILENT, Phase, Progress, Ui
from minifier.process.stacks import stack_file

if TYPE_CHECKING:
    from minifier.capturing.baseline import Baseline
    from minifier.capturing.graph_record import Record

    OnFailure = Callable[[Record, BaseException | None], None]
from typing import Any

from minifier.capturing.events import EventReader
from minifier.process.progress import counted


def capture(
    program: Program,
    folder: Path,
    terms: Terms = Terms(),  # noqa: B008 - it is frozen
    ui: Ui = SILENT,
    meanwhile: Callable[[], object] | None = None,
) -> Captured:
    """Run the program in a forked child; call `meanwhile` in this process during the run.

    A run with a purpose of its own comes after another, and prints nothing.
    Cases of failing calls are sub-folders of `folder`, by number. A SIGKILL may come from the kernel, for lack of
    memory, or from anybody: only the second is the program's own, or the first if a call is known to fail.
    """
    captured = _capture_once(program, folder, terms, ui, meanwhile)
    if captured.was_killed and terms.keep is None and not captured.end.interrupted:
        ui.say(f"{program.said} was killed (SIGKILL), perhaps by the kernel for lack of memory: running it again")
        shutil.rmtree(folder)
        captured = _capture_once(program, folder, terms, ui)
        if captured.was_killed:
            ui.say(f"{program.said} was killed (SIGKILL) again: that counts as its failure from now on")
    if captured.has_lingered:
        ui.say(f"{program.said} does not end, as a thread or an exit handler of it waits: ended its process")
    return captured


def _capture_once(
    program: Program, folder: Path, terms: Terms, display: Ui, meanwhile: Callable[[], object] | None = None
) -> Captured:
    from minifier.capturing.baseline import baseline_of_a_repro

    folder.mkdir(parents=True, exist_ok=True)
    baseline = replace(baseline_of_a_repro(), path=ordinary_path())
    status = RunningCalls()
    started = status.now()
    watch = Watch(status, folder / STACKS, terms)
    subject = f"{program.said} again, {terms.purpose}; its output is not shown" if terms.purpose else program.said
    graphs = GraphProgress(folder, Progress(Phase.SCRIPT, subject), display)
    try:
        with output_dropped(bool(terms.purpose)) as drop_output:
            end = run_step(
                lambda: drop_output() or _in_child(program, folder, baseline, terms, status),
                graphs.tick,
                meanwhile=meanwhile,
                looks=[watch],
                stacks=watch.stacks,
            )
        graphs.tick()  # the last events
    finally:
        kill_orphans()  # the script's own processes would stay, once for each of its runs
    return read_run(folder, end, status.now() - started, status, watch)


def run_here(program: Program, folder: Path, terms: Terms, on_failure: OnFailure) -> None:
    """Run the program in this process, which is a fork made for it; `on_failure` is as in `Observer`."""
    from minifier.capturing.baseline import baseline_of_a_repro

    folder.mkdir(parents=True, exist_ok=True)
    baseline = replace(baseline_of_a_repro(), path=ordinary_path())
    _in_child(program, folder, baseline, terms, RunningCalls(), on_failure)


def _in_child(
    program: Program,
    folder: Path,
    baseline: Baseline,
    terms: Terms,
    status: RunningCalls,
    on_failure: OnFailure | None = None,
) -> int:
    from torch.compiler import set_stance

    from minifier.capturing.aot_inductor import ExportedObserver
    from minifier.capturing.backend_reads import note_reads
    from minifier.capturing.backend_reference import source_at_compile
    from minifier.capturing.observer import Observer
    from minifier.capturing.other_backend import compile_with
    from minifier.torch_private import (
        note_at_compile,
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
    note_reads()
    note_registrations()
    note_inference_mode()
    observer = Observer(folder, program.name, baseline, terms, status)
    observer.on_failure = on_failure or observer.on_failure
    on_loss(lambda sentence: observer.log.write("unsupported", sentence=sentence))
    observe_backend_calls(observer)
    note_at_compile(source_at_compile)
    observe_tracing(observer.traced)
    exported = ExportedObserver(observer)
    observe_aot_inductor(exported.compiling, exported.loaded)
    note_backward_passes(observer.trains)
    if terms.in_eager:
        set_stance("force_eager")
    path_before = {os.path.abspath(folder) for folder in sys.path}

    def ended(end: ScriptEnd) -> None:
        observer.look_back()
        given = variables(baseline.environment)
        environment = [pair for pair in variables(os.environ) if pair not in given]
        calls = list(observer.calls.items())
        path = [folder for folder in map(os.path.abspath, sys.path) if folder not in path_before]
        observer.log.write("ended", **asdict(end), environment=environment, calls=calls, path=path)
        status.exits()

    before = None
    if program.is_redirected:
        before = functools.partial(compile_with, program.backend, program.modules, terms.module_calls)
    if terms.memory is not None:
        limit_data(terms.memory)
    with overheard(observer.heard, logging.WARNING if terms.match_log is None else logging.INFO):
        code = run_program(program, ended, before)
    status.ended()
    return code


class GraphProgress:
    """Shows `progress` of a script's run, with the last graph that a backend got. `tick` reads what was logged."""

    def __init__(self, folder: Path, progress: Progress, ui: Ui) -> None:
        self._events, self._progress, self._ui = EventReader(folder), progress, ui
        self._graphs: dict[int, str] = {}
        ui.show(progress)

    def tick(self) -> None:
        """Show the last graph, and let time pass on the display."""
        for event in self._events.new_events():
            self._tell(event)
        self._ui.tick()

    def _tell(self, event: dict[str, Any]) -> None:
        what, number = event["event"], event.get("number", 0)  # the first graph is 1
        if what == "compiling":
            ops = counted(event["ops"], "op") if event["ops"] is not None else "not readable"
            self._graphs[number] = f"graph {number}: {ops} → {event['backend']}"
        graph = self._graphs.get(number, "")
        step = {
            "compiling": f"{graph}, compiling",
            "compiled": f"{graph}, compiled in {event.get('seconds', 0.0):.1f} s",
            "compared": f"{graph}, compared with eager",
            "failed": f"{graph}, failed",
            "declined": f"{graph}, declined",
        }.get(what)
        if graph and step:
            self._ui.show(replace(self._progress, step=step))
            self._ui.detail(step)
