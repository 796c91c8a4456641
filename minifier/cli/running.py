"""`minify run`."""

from __future__ import annotations

import filecmp
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minifier.capturing.script import Program
from minifier.capturing.standard_input import StandardInput
from minifier.cli.around import cluster_of, import_torch, temporary_folder, verification_ahead
from minifier.cli.by_source import by_source
from minifier.cli.choosing import choose, folder_name, list_failing
from minifier.cli.console import EXIT_CODE, Console
from minifier.cli.options import script_memory, settings_from
from minifier.cli.paths import check_program, output_folder, reserved
from minifier.cli.resuming import reduce_command
from minifier.errors import ExitCode, NoRepro, NothingToReduce, UsageError
from minifier.process.interpreters import import_ahead
from minifier.process.progress import Phase, Progress, counted
from minifier.workflow.exported_program import as_script, check_exported, is_exported
from minifier.workflow.interrupted_runs import Asked, interrupted, note_run
from minifier.workflow.no_failure import nothing_failed
from minifier.workflow.run_folder import RESULTS

if TYPE_CHECKING:  # importing it would import torch before the arguments are checked
    from minifier.capturing.capture import FailingGraph
    from minifier.cluster.link import Cluster


def run_command(
    script: str,
    arguments: tuple[str, ...],
    is_module: bool,
    graph: int | None,
    every: bool,
    given: dict[str, Any],
) -> int:
    """Captures, reduces, verifies; gives the exit code."""
    started = time.monotonic()
    if every and graph is not None:
        raise UsageError("--graph and --all contradict each other: give one of them.")
    program = Program(script, arguments, is_module)
    if is_exported(script):
        check_exported(program, given["backend"])
    elif given["backend"] is not None:
        raise UsageError("--backend is for exported programs (.pt2): a script says itself what compiles it.")
    else:
        check_program(program)
    with Console.as_given(given) as console:
        left = None if every else _goes_on(Asked(program, graph), given, console)
        if left is None:
            return _run_all(program, graph, every, given, console, started)
    return reduce_command(left, given)


def _run_all(
    program: Program, graph: int | None, every: bool, given: dict[str, Any], console: Console, started: float
) -> int:
    out = output_folder(given["out"], program.name)
    with verification_ahead(given["verify"]), cluster_of(given) as cluster:
        console.show(Progress(Phase.LOADING))
        import_torch()
        return _run(program, out, graph, every, given, console, started, cluster)


def _run(
    program: Program,
    out: Path,
    graph: int | None,
    every: bool,
    given: dict[str, Any],
    console: Console,
    started: float,
    cluster: Cluster | None,
) -> int:
    settings = settings_from(given)
    from minifier.capturing.find_failures import find_failures
    from minifier.capturing.terms import Terms
    from minifier.source.minify_source import is_of_torch

    terms = Terms(settings.timeout, script_memory(given), settings.match_log)
    with temporary_folder() as work:
        if is_exported(program.target):
            program = as_script(program, given["backend"], work)
        if given["level"] == "source":
            return _reduce_script(program, out, given, console, started, 0.0)
        program = replace(program, given=StandardInput(work / "stdin"))
        looked = find_failures(program, work, terms, settings, console.say, console)
        captured = looked.captured
        if not captured.failing:
            if is_of_torch(captured.error, captured.traceback):
                return _reduce_script(program, out, given, console, started, captured.seconds)
            raise nothing_failed(program, captured, looked.compared)
        chosen = choose(captured, graph, every)
        list_failing(console, captured.failing, chosen)
        existed = out.exists()
        out = reserved(out, given["out"], program.name)
        # What is the program's own fault may stand before a failure of the backend.
        waiting = chosen if every or graph is not None else captured.failing
        codes: list[ExitCode] = []
        innocent: list[NothingToReduce] = []
        for index, failing in enumerate(waiting):
            place = out / folder_name(failing, chosen) if every else out
            rest = tuple(f"graph {f.number}: {f.sentence}" for f in captured.failing if f is not failing)
            find = partial(looked.case_folder, place=work / f"again-{index}", say=console.say, display=console)
            seen, folder = find(failing)
            again = find if folder == looked.graphs / str(failing.number) else None
            one = _One(seen, folder, place, Asked(program, graph), started, captured.seconds, rest, again, cluster)
            try:
                codes.append(_reduce_one(one, given, console))
            except NothingToReduce as error:
                innocent.append(error)
                if index + 1 < len(waiting):
                    console.say(f"graph {failing.number}: {error}\ngoing on with the next failure")
                    place.mkdir(parents=True, exist_ok=True)
                continue
            if not every:
                break
            started = time.monotonic()  # the next one's total is its own
        if not codes:
            _put_back(out, existed)
            raise innocent[0]
        return int(next((code for code in codes if code != ExitCode.REDUCED), ExitCode.REDUCED))


def _goes_on(asked: Asked, given: dict[str, Any], console: Console) -> Path | None:
    """The output folder of an interrupted run of the same, if the user wants to go on with that."""
    if given["out"] is not None or given["level"] == "source":
        return None
    left = interrupted(asked, list(RESULTS.glob(f"{asked.program.name}-*")))
    if left is None or console.ask(f"{left} was interrupted, and the script is the same: go on with that?"):
        return left
    console.say(f"an earlier run of this script was interrupted: `minify reduce {left}` goes on with it")
    return None


def _reduce_script(
    program: Program, out: Path, given: dict[str, Any], console: Console, started: float, seconds: float
) -> int:
    """Where torch.compile itself has failed, ahead of any backend."""
    from minifier.source.minify_source import minify_source

    existed = out.exists()
    out = reserved(out, given["out"], program.name)
    try:
        outcome = minify_source(program, out, settings_from(given), console.say, console, started, seconds)
    except (NothingToReduce, NoRepro):
        _put_back(out, existed)
        raise
    console.final(outcome, out)
    return int(EXIT_CODE[outcome.status.value])


@dataclass(frozen=True)
class _One:
    """One failing graph to be reduced: where its Case is, where the results go, and what surrounds it. `again` runs the
    script once more for the inputs of the failing call, if that was not done yet."""

    failing: FailingGraph
    folder: Path
    place: Path
    asked: Asked
    started: float
    capture_seconds: float
    others: tuple[str, ...]
    again: Callable[[FailingGraph], tuple[FailingGraph, Path]] | None = None
    cluster: Cluster | None = None


def _reduce_one(one: _One, given: dict[str, Any], console: Console) -> ExitCode:
    from minifier.case.store import ATEN, CASE
    from minifier.torch_private import INDUCTOR, INDUCTOR_MODULES
    from minifier.workflow.pipeline import adopt, finish, give_up
    from minifier.workflow.reduction import Surroundings

    failing, place, folder = one.failing, one.place, one.folder
    if failing.unsaved and (folder / ATEN / CASE).exists():
        console.say(f"Dynamo's graph cannot be written down: {failing.unsaved}")
        console.say("going on with the ATen graph that AOTAutograd made of it")
        folder /= ATEN
    elif failing.unsaved:
        console.error(failing.traceback)
        outcome = give_up(failing, place, one.asked.program.name, one.started, one.capture_seconds, one.others)
        outcome = by_source(one.asked, outcome, place, settings_from(given), console, one.started)
        console.final(outcome, place)
        return EXIT_CODE[outcome.status.value]
    note_run(place, one.asked)
    case = adopt(folder, place, failing.forward, one.asked.program.source())
    size = f" ({counted(failing.ops, 'op')})" if failing.ops is not None else ""
    console.say(f"graph {failing.number}{size} fails: {failing.sentence}")
    settings = settings_from(given)
    around = Surroundings(console.say, console, one.cluster, console.ask)
    if case.backend.name == INDUCTOR:
        import_ahead(INDUCTOR_MODULES)
    try:
        outcome = finish(case, place, settings, around, one.started, one.capture_seconds, one.others)
    except NothingToReduce:
        _put_back(place, existed=False)
        raise
    if outcome.summary is not None and outcome.summary.exit_code == ExitCode.NO_REPRO and outcome.minimal is None:
        kept = _with_inputs_kept(one)
        if kept is not None:
            _put_back(place, existed=True)
            return _reduce_one(kept, given, console)
    outcome = by_source(one.asked, outcome, place, settings, console, one.started)
    console.final(outcome, place)
    return EXIT_CODE[outcome.status.value]


def _with_inputs_kept(one: _One) -> _One | None:
    """The same with the inputs as they were ahead of the failing call; None where they are what there was already. Not
    every change in place is counted: not under inference mode, nor through `.data`."""
    from minifier.case.store import TENSORS
    from minifier.failure import Stage

    if one.again is None or one.failing.unsaved or one.failing.stage not in (Stage.RUN, Stage.BACKWARD_RUN):
        return None
    lost = "the failure was not seen again, and the failing call may have changed its inputs"
    seen, folder = one.again(replace(one.failing, inputs_lost=lost))
    ahead, left = folder / TENSORS, one.folder / TENSORS
    if folder == one.folder or not (ahead.exists() and left.exists()) or filecmp.cmp(ahead, left, shallow=False):
        return None
    return replace(one, failing=seen, folder=folder, again=None)


def _put_back(place: Path, existed: bool) -> None:
    """Leaves the output folder as it was before the run: empty, or not there."""
    if not place.exists():
        return
    for left in place.iterdir():
        if left.is_dir() and not left.is_symlink():
            shutil.rmtree(left)
        else:
            left.unlink()
    if existed or place.is_symlink():
        return
    place.rmdir()
    if place.parent.name == RESULTS.name and not any(place.parent.iterdir()):
        place.parent.rmdir()
