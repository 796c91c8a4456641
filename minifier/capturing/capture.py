"""Run the script in an observed child process to find its failing calls; again to compare, or to record inputs."""

from __future__ import annotations

import functools
import gc
import logging
import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minifier.capturing import script
from minifier.capturing.captured import Captured, EventReader, FailingGraph
from minifier.capturing.read_run import read_run
from minifier.capturing.running_calls import RunningCalls
from minifier.capturing.script import Program, ScriptEnd, is_file, run_program
from minifier.capturing.script_limits import STACKS, Comparing, Keep, Terms, Watch
from minifier.data.case.store import load, save
from minifier.data.case.switches import variables
from minifier.data.failure import Failure, Kind, same
from minifier.data.failure.evidence import rank_of
from minifier.data.losses import on_loss
from minifier.data.settings import Settings
from minifier.process.child import Child, run_to_end
from minifier.process.descendants import kill_orphans
from minifier.process.descriptors import close_for_scripts, stack_file
from minifier.process.forked_step import output_dropped, run_step
from minifier.process.interpreters import ordinary_path
from minifier.process.logs import overheard
from minifier.process.machine import limit_data
from minifier.process.progress import SILENT, Phase, Progress, Ui, counted

if TYPE_CHECKING:
    from minifier.capturing.graph_record import Record
    from minifier.capturing.process_state import Baseline

    OnFailure = Callable[[Record, BaseException | None], None]


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
    from minifier.capturing.process_state import baseline_of_a_repro

    folder.mkdir(parents=True, exist_ok=True)
    baseline = replace(baseline_of_a_repro(), path=ordinary_path())
    status = RunningCalls()
    started = status.now()
    watch = Watch(status, folder / STACKS, terms)
    subject = f"{program.said} again, {terms.purpose}; its output is not shown" if terms.purpose else program.said
    graphs = GraphProgress(folder, Progress(Phase.SCRIPT, subject), display, watch)
    try:
        with output_dropped(bool(terms.purpose)) as drop_output:
            end = run_step(
                lambda: drop_output() or _in_child(program, folder, baseline, terms, status),
                graphs.tick,
                meanwhile=meanwhile,
                looks=[watch],
                interrupting=watch.take_for_hang,
                stacks=watch.stacks,
                seconds=terms.seconds,
            )
        graphs.tick()  # the last events
    finally:
        kill_orphans()  # the script's own processes would stay, once for each of its runs
    return read_run(folder, end, status.now() - started, status, watch)


def run_here(program: Program, folder: Path, terms: Terms, on_failure: OnFailure) -> None:
    """Run the program in this process, which is a fork made for it; `on_failure` is as in `Observer`."""
    from minifier.capturing.process_state import baseline_of_a_repro

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
    from minifier.capturing.backend_reference import note_reads
    from minifier.capturing.compile_modes import compile_with, set_modes
    from minifier.capturing.exported import ExportedObserver
    from minifier.capturing.observer import Observer
    from minifier.capturing.watched_script import WatchedScript
    from minifier.torch_side.torch_private import aot, dynamo, inductor, modes, registrations

    script.under_run = True
    os.environ.update(terms.variables)
    close_for_scripts()
    gc.unfreeze()  # the script's garbage collector and temporary folder are as without minify
    tempfile.tempdir = None
    if program.given is not None:
        program.given.set_up()
    stack_file(folder / STACKS)
    note_reads()
    registrations.note_registrations()
    modes.note_inference_mode()
    observer = Observer(folder, program.name, baseline, terms, status)
    observer.on_failure = on_failure or observer.on_failure
    on_loss(lambda sentence: observer.log.write("unsupported", sentence=sentence))
    dynamo.observe_backend_calls(observer)
    dynamo.observe_tracing(observer.traced)
    exported = ExportedObserver(observer)
    inductor.observe_aot_inductor(exported.compiling, exported.loaded)
    aot.note_backward_passes(observer.trains)
    set_modes(terms)
    watched = WatchedScript(os.path.abspath(program.file), folder, observer.backends) if terms.watched else None
    path_before = {os.path.abspath(folder) for folder in sys.path}

    def ended(end: ScriptEnd) -> None:
        if watched is not None:
            watched.written(end)
        observer.look_back()
        given = variables({**baseline.environment, **dict(terms.variables)})
        environment = [pair for pair in variables(os.environ) if pair not in given]
        calls = list(observer.calls.items())
        path = [folder for folder in map(os.path.abspath, sys.path) if folder not in path_before]
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        facts = {**asdict(end), "environment": environment, "calls": calls, "path": path}
        facts["children"] = used.ru_utime + used.ru_stime
        observer.log.write("ended", **facts)
        status.exits()

    redirect = functools.partial(compile_with, program.backend, program.modules, terms.module_calls)
    if terms.memory is not None:
        limit_data(terms.memory)
    if watched is not None:
        watched.start()
    with overheard(observer.heard, logging.WARNING if terms.match_log is None else logging.INFO):
        code = run_program(program, ended, redirect if program.is_redirected else None)
    status.ended()
    return code


class GraphProgress:
    """Shows `progress` of a script's run, with the last graph that a backend got. `tick` reads what was logged.

    For a long backend call it also shows the seconds so far, and the limit, as `watch` counts them.
    """

    def __init__(self, folder: Path, progress: Progress, ui: Ui, watch: Watch) -> None:
        self._events, self._progress, self._ui, self._watch = EventReader(folder), progress, ui, watch
        self._graphs: dict[int, str] = {}
        self._long_call: tuple[float, float] | None = None
        ui.show(progress)

    def tick(self) -> None:
        """Show the last graph, and let time pass on the display."""
        for event in self._events.new_events():
            self._tell(event)
        if self._watch.long_call != self._long_call:
            self._long_call = self._watch.long_call
            self._show()
        self._ui.tick()

    def _show(self) -> None:
        hint = "Ctrl-C: take it for a hang, twice: stop; " if self._long_call else ""
        self._ui.show(replace(self._progress, step=f"{hint}{self._progress.step}", to_limit=self._long_call))

    def _tell(self, event: dict[str, Any]) -> None:
        what, number = event["event"], event.get("number", 0)  # the first graph is 1
        if what == "compiling":
            ops = counted(event["ops"], "op") if event["ops"] is not None else "not readable"
            self._graphs[number] = f"graph {number}: {ops} → {event['reference']['name']}"
        graph = self._graphs.get(number, "")
        step = {
            "compiling": f"{graph}, compiling",
            "compiled": f"{graph}, compiled in {event.get('seconds', 0.0):.1f} s",
            "compared": f"{graph}, compared with eager",
            "failed": f"{graph}, failed",
            "declined": f"{graph}, declined",
        }.get(what)
        if graph and step:
            self._progress = replace(self._progress, step=step)
            self._show()
            self._ui.detail(step)


_MIN_HANG_SECONDS = 2.0  # time limit of a call that is known to hang


def recapture_inputs(found: FoundFailures, failing: FailingGraph, ui: Ui = SILENT) -> FailingGraph:
    """Run the script again, and save the inputs before the failing call.

    Return the failure of the second run; that of the first run if the second differs.
    """
    hangs = failing.failure.fingerprint.kind is Kind.TIMEOUT
    patience = max(_MIN_HANG_SECONDS, 2 * found.captured.slowest) if hangs else None
    keep = Keep(failing.number, failing.call, patience, failing.forward)
    second = rerun(found, f"again-{failing.number}-{failing.call}", ui, keep=keep).captured
    lost, deaths = "", {Kind.SIGNAL, Kind.EXIT}
    for other in second.failing:
        if (other.number, other.call) != (failing.number, failing.call):
            continue
        if other.unsaved:
            return replace(failing, unsaved=other.unsaved)
        if other.inputs_lost:  # they could not be saved before the call
            lost = f"the second run could not keep the inputs: {other.inputs_lost}"
            break
        if hangs and other.failure.fingerprint.kind is Kind.TIMEOUT:
            case = load(other.folder)  # the second run's waiting time means nothing
            save(replace(case, failure=failing.failure), other.folder)
            return replace(failing, folder=other.folder)
        if deaths.issuperset(each.failure.fingerprint.kind for each in (other, failing)):
            if other.failure.message != failing.failure.message:
                ui.say(
                    f"the first time it was {failing.failure.message}, now {other.failure.message}: going on with that"
                )
            return other
        if same(failing.failure.fingerprint, other.failure.fingerprint):
            return other
    if second.end.interrupted:
        raise KeyboardInterrupt
    if not lost:
        other_failures = "; ".join(f"graph {f.number}: {f.sentence}" for f in second.failing)
        what = f"it showed {other_failures}" if other_failures else "no backend call failed in it"
        where = f"the second run did not fail in call {failing.call} of graph {failing.number} as the first did"
        lost = f"{where}: {what}. The failure may depend on chance"
    kept = load(failing.folder) if not failing.unsaved else None
    if kept is None or kept.failure.fingerprint != failing.failure.fingerprint:
        return replace(failing, unsaved=failing.unsaved or lost)
    known = "by their shapes alone" if kept.tensors is None else "as the call left them"
    ui.say(f"{lost}; going on with its inputs {known}")
    return failing


SYNCHRONOUS = (("CUDA_LAUNCH_BLOCKING", "1"),)
# In the type or message of an error that an asynchronous kernel may have caused.
_ERRORS_OF_DEVICE = ("torch.AcceleratorError", "CUDA error", "HIP error")

_MAX_COMPARING_SHARE = 0.5  # of the script's own time, for all comparisons
MIN_COMPARING_SECONDS = 10.0  # for them in any case
_MIN_SECONDS_BY_ITSELF, _FACTOR_BY_ITSELF = 60.0, 10.0  # limit for a run without hooks; factor of the observed run
_MAX_COMPARING_RUNS = 3  # each leaves out the graph in whose comparison the previous run died


@dataclass(frozen=True, slots=True)
class FoundFailures:
    """The failures of a script. `captured` is the run that showed them, on `terms`.

    `compared` is the run that compared results with eager's, or None; its folder has what the script saw. `own_failure`
    is how the script failed by itself, by a check of its results say, ahead of that run. `work` is the folder for all
    runs. `fallbacks` are the names of the workflow's fallbacks that led here.
    """

    program: Program
    captured: Captured
    work: Path
    terms: Terms
    compared: Captured | None = None
    own_failure: Failure | None = None
    fallbacks: tuple[str, ...] = ()


def run_script(
    program: Program, work: Path, terms: Terms, ui: Ui = SILENT, meanwhile: Callable[[], object] | None = None
) -> FoundFailures:
    """Run the script once; call `meanwhile` in this process during the run."""
    return FoundFailures(program, capture(program, work / "graphs", terms, ui, meanwhile), work, terms)


def rerun(found: FoundFailures, folder: str, ui: Ui, **changes: Any) -> FoundFailures:
    """Run the script again, on terms with these changes, in a sub-folder of the work; return what that run showed."""
    terms = replace(found.terms, **changes)
    return replace(found, captured=capture(found.program, found.work / folder, terms, ui), terms=terms)


def should_compare(found: FoundFailures, settings: Settings) -> bool:
    """Whether the script must run again, to compare compiled results with eager's."""
    captured = found.captured
    was_ended = captured.end.interrupted or captured.end.signal is not None
    if settings.compare == "never" or not captured.graphs or was_ended:
        return False
    return not captured.failing or settings.compare == "always"


def compare_with_eager(found: FoundFailures, settings: Settings, ui: Ui = SILENT) -> FoundFailures:
    """Run the script again and compare results of each graph with eager's.

    A graph in whose comparison the process dies is left out of the next run, for `_MAX_COMPARING_RUNS` runs.
    """
    first = found.captured
    comparing = Comparing(
        settings.measure,
        first.trained,
        first.changed,
        last_calls=dict(first.calls),
        seconds=max(MIN_COMPARING_SECONDS, _MAX_COMPARING_SHARE * first.seconds),
    )
    lost: list[tuple[int, str]] = []
    for n in range(1, _MAX_COMPARING_RUNS + 1):
        folder = f"compared-{'strictly-' if settings.measure.strict else ''}{n}"
        second = rerun(found, folder, ui, comparing=comparing, watched=True).captured
        if second.failing or second.lost is None or second.end.interrupted:
            break
        lost += second.not_compared[-1:]
        if n == _MAX_COMPARING_RUNS:
            break
        ui.say(f"graph {lost[-1][0]} cannot be compared ({lost[-1][1]}): running the script again without that")
        comparing = replace(comparing, left_out=comparing.left_out | {second.lost})
    terms = replace(found.terms, comparing=comparing)
    if second.failing:
        if second.bounded:
            ui.say(f"further calls were not compared: comparing had taken {second.bounded:.0f} s")
        # The worst aspect comes first: a script may be wrong because of a later graph's.
        ranked = sorted(second.failing, key=lambda each: rank_of(each.failure) if each.failure is not None else -1)
        second = replace(second, failing=tuple(ranked))
        return replace(found, captured=second, terms=terms, compared=second, own_failure=first.failure)
    missing = tuple(dict([*lost, *second.not_compared]).items())
    return replace(found, terms=terms, compared=replace(second, not_compared=missing))


def run_in_eager(found: FoundFailures, folder: str, ui: Ui = SILENT, **changes: Any) -> Captured:
    """Run the script again with torch.compile running everything in eager mode, and with these changes of the terms."""
    return rerun(found, folder, ui, comparing=None, in_eager=True, **changes).captured


def run_by_itself(found: FoundFailures, ui: Ui = SILENT) -> str:
    """Run the script as Python runs it, without any hook of this tool. Return how it failed; "" if it ended well.

    Also "" if it took ten times as long as under the hooks, or cannot be run so: its source was a pipe or generated.
    """
    program, captured = found.program, found.captured
    if program.is_redirected or program.made_of or not (program.is_module or is_file(program.target)):
        return ""
    command = [sys.executable, *(["-m"] if program.is_module else []), program.target, *program.arguments]
    prepare = program.given.set_up if program.given is not None else None
    errors = found.work / "by-itself.txt"
    with errors.open("wb") as file:
        child = Child.launched(command, prepare or (lambda: None), stdout=subprocess.DEVNULL, stderr=file)
    run_to_end(child, max(_MIN_SECONDS_BY_ITSELF, _FACTOR_BY_ITSELF * captured.seconds), ui.tick)
    if child.timed_out or child.code == 0:
        return ""
    lines = [line for line in errors.read_text(errors="replace").splitlines() if line.strip()]
    last = f": {lines[-1].strip()}" if lines else ""
    return (f"with exit status {child.code}" if child.status is not None else f"by signal {child.signal}") + last


def may_be_late(found: FoundFailures) -> bool:
    """Whether the error of a device may have been raised by a later op than the one that caused it."""
    failures: list[Failure | None] = [failing.failure for failing in found.captured.failing]
    failures = failures or [found.captured.failure]
    is_set = any(name in os.environ for name, _ in SYNCHRONOUS)
    return not is_set and not found.captured.end.interrupted and failures[0] is not None and _is_of_device(failures[0])


def _is_of_device(failure: Failure) -> bool:
    text = f"{failure.type}: {failure.message}"
    return not failure.fingerprint.stage.compiles and any(part in text for part in _ERRORS_OF_DEVICE)


def run_synchronously(found: FoundFailures, ui: Ui = SILENT) -> FoundFailures:
    """Run the script again so that each kernel ends before its op returns, and raises there.

    `found` is returned as it is if no backend call fails then by such an error.
    """
    again = rerun(found, "synchronous", ui, variables=SYNCHRONOUS)
    if again.captured.end.interrupted:
        raise KeyboardInterrupt
    is_shown = again.captured.failing and _is_of_device(again.captured.failing[0].failure)
    return again if is_shown else found


def compiles_nothing(found: FoundFailures) -> bool:
    """Whether a script that another backend shall compile ran to its end without a graph."""
    captured = found.captured
    return found.program.is_redirected and not captured.graphs and captured.failure is None


def compile_module_calls(found: FoundFailures, ui: Ui = SILENT) -> FoundFailures:
    """Run the script again, compiling each call of a module from outside of modules."""
    return rerun(found, "module-calls", ui, module_calls=True)
