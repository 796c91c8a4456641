"""`minify run` and `minify reduce`."""

from __future__ import annotations

import contextlib
import difflib
import gc
import importlib
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minifier.capture.script import Program
from minifier.cli.console import EXIT_CODE, Console
from minifier.cli.options import settings_from
from minifier.cli.paths import case_folder, check_program, output_folder, reserved
from minifier.errors import ExitCode, MinifyError, NothingToReduce, StoppedEarly, UsageError

if TYPE_CHECKING:  # importing it would import torch before the arguments are checked
    from minifier.capture.stage import Captured, FailingGraph


def _import_torch() -> None:
    """Everything the children need, once, before the first fork; without collecting the millions of
    objects again and again that are all there to stay."""
    gc.disable()
    try:
        import torch
    except ImportError as error:
        raise UsageError(
            f"torch cannot be imported here ({error}). Install it first, for example with `pip install torch`."
        ) from None
    try:
        importlib.import_module("minifier.capture.observer")
        importlib.import_module("minifier.reduction.stage")
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"torch {torch.__version__} lacks what this tool stands on ({error}). It is made for torch 2.13."
        ) from None
    gc.enable()
    gc.freeze()


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
    program = Program(script, arguments, is_module)
    check_program(program)
    out = output_folder(given["out"], program.name)
    console = Console(given["quiet"])
    _import_torch()
    settings_from(given)
    from minifier.capture.stage import capture

    with _temporary() as work:
        crash_file = work / "crash.txt"
        captured = capture(program, work / "graphs", lambda text: _write(crash_file, text))
        tempfile.tempdir = str(work)  # not before: the script has its own
        if not captured.failing:
            if crash_file.exists():
                raise MinifyError(crash_file.read_text(encoding="utf-8"))
            raise _nothing(program, captured)
        chosen = _chosen(captured.failing, graph, every)
        _list_failing(console, captured.failing, chosen)
        existed = out.exists()
        out = reserved(out, given["out"], program.name)
        codes = []
        for failing in chosen:
            place = out / f"graph-{failing.number}" if every else out
            folder = work / "graphs" / str(failing.number)
            if failing.inputs_changed and not failing.unsaved:
                folder = _with_inputs_kept(program, failing, folder, work / f"again-{failing.number}", console)
            rest = tuple(f"graph {f.number}: {f.sentence}" for f in captured.failing if f is not failing)
            one = _One(failing, folder, place, program.name, started, captured.seconds, rest, existed)
            codes.append(_reduce_one(one, given, console))
            started = time.monotonic()  # the next one's total is its own
        return int(next((code for code in codes if code != ExitCode.REDUCED), ExitCode.REDUCED))


@contextlib.contextmanager
def _temporary() -> Iterator[Path]:
    """One folder for all that is temporary, this process's and its children's; removed whatever happens."""
    from minifier.torch_private import inductor_folder

    inductor_folder()  # found below the temporary folder as the user has it
    folder = Path(tempfile.mkdtemp(prefix="minify-"))
    try:
        yield folder
    finally:
        tempfile.tempdir = None
        shutil.rmtree(folder, ignore_errors=True)


def _with_inputs_kept(program: Program, failing: FailingGraph, folder: Path, place: Path, console: Console) -> Path:
    """Runs the script once more, its graphs' inputs copied before each call; the folder of the Case that
    shows the same failure with them, or the first one if the script does not do the same again."""
    from minifier.capture.stage import capture
    from minifier.failure import same

    console.say("the failing call had changed its inputs: running the script again to keep them as they were")
    again = capture(program, place, console.error, keep_inputs=True)
    for other in again.failing:
        if other.number != failing.number or other.unsaved or other.failure is None or failing.failure is None:
            continue
        if same(failing.failure.fingerprint, other.failure.fingerprint):
            return place / str(other.number)
    console.say("the script did not fail in the same way again: going on with the inputs as the call left them")
    return folder


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


@dataclass(frozen=True)
class _One:
    """One failing graph to be reduced: where its Case is, where the results go, and what surrounds it."""

    failing: FailingGraph
    folder: Path
    place: Path
    script: str
    started: float
    capture_seconds: float
    others: tuple[str, ...]
    existed: bool


def _reduce_one(one: _One, given: dict[str, Any], console: Console) -> ExitCode:
    from minifier.pipeline import Surroundings, adopt, finish, give_up

    failing, place = one.failing, one.place
    if failing.unsaved:
        console.error(failing.traceback)
        outcome = give_up(failing, place, one.script, one.started, one.capture_seconds, one.others)
        console.final(outcome, place)
        return EXIT_CODE[outcome.status.value]
    case = adopt(one.folder, place)
    console.say(f"graph {failing.number} ({failing.ops} ops) fails: {failing.sentence}")
    settings = settings_from(given, case.script.seconds)
    around = Surroundings(console.say, console.on_probe)
    try:
        outcome = finish(case, place, settings, around, one.started, one.capture_seconds, one.others)
    except NothingToReduce:
        _put_back(place, one.existed)
        raise
    console.final(outcome, place)
    return EXIT_CODE[outcome.status.value]


def _put_back(place: Path, existed: bool) -> None:
    """Leaves the output folder as it was before the run."""
    shutil.rmtree(place)
    if existed:
        place.mkdir()
    elif place.parent.name == "minify-out" and not any(place.parent.iterdir()):
        place.parent.rmdir()


def _chosen(failing: tuple[FailingGraph, ...], graph: int | None, every: bool) -> tuple[FailingGraph, ...]:
    if graph is None:
        return failing if every else failing[:1]
    found = tuple(f for f in failing if f.number == graph)
    if not found:
        numbers = ", ".join(str(f.number) for f in failing)
        raise UsageError(f"graph {graph} of the script did not fail; these did: {numbers}.")
    return found


def _list_failing(console: Console, failing: tuple[FailingGraph, ...], chosen: tuple[FailingGraph, ...]) -> None:
    if len(failing) > 1:
        console.say(f"{len(failing)} backend calls failed:")
        for each in failing:
            mark = "*" if each in chosen else " "
            console.say(f"{mark} graph {each.number}: {each.sentence}")
        if len(chosen) < len(failing):
            console.say("the one marked is reduced; choose another with --graph N, or take each with --all")


def _nothing(program: Program, captured: Captured) -> MinifyError:
    """Why there is nothing to reduce, and what was checked."""
    name = program.target
    if captured.end.interrupted:
        return StoppedEarly(f"{name} was interrupted before a backend call had failed")
    checked = (
        f"{captured.graphs} graph{'s' if captured.graphs != 1 else ''} went to the backend "
        f"({', '.join(captured.backends)}); each was compiled, and each call of the result was watched for an exception"
        if captured.graphs
        else "no graph went to a backend"
    )
    if captured.end.signal is not None:
        return NothingToReduce(
            f"{name} died of signal {captured.end.signal} while no backend was compiling: a death while "
            f"compiled code runs cannot be reduced yet. Checked: {checked}."
        )
    last = captured.error
    if "InvalidBackend" in captured.traceback:
        return NothingToReduce(f"{name} names a backend that does not exist.\n{last}\n{_similar(captured.traceback)}")
    if captured.traceback:
        return NothingToReduce(
            f"{name} fails by itself: {last}\n"
            f"No backend call failed. Checked: {checked}. Backward passes were not looked into."
        )
    if not captured.graphs:
        return NothingToReduce(
            f"{name} ended with exit status {captured.script_status}, and nothing in it was compiled: no call "
            "reached a function under torch.compile, or Dynamo found no ops to compile in it."
        )
    return NothingToReduce(
        f"{name} ended with exit status {captured.script_status} and no backend call failed. Checked: {checked}. "
        f"Results were not compared with eager.{_too_late(captured)}"
    )


def _too_late(captured: Captured) -> str:
    """What the script set for a torch that it had not imported yet, but which was there already."""
    if not captured.environment:
        return ""
    variables = " ".join(f"{name}={value}" for name, value in captured.environment)
    return (
        f"\nThe script sets {variables}, which torch reads when it is imported: under minify that is before the "
        f"script starts. Try `{variables} minify run ...`."
    )


def _similar(trace: str) -> str:
    """What the user may have meant by a backend's name that does not exist."""
    import re

    from minifier.torch_private import backend_table

    found = re.search(r"InvalidBackend: Invalid backend: '([^']*)'", trace)
    known = [name for name, _, _ in backend_table()]
    close = difflib.get_close_matches(found.group(1), known) if found else []
    hint = f"Did you mean {' or '.join(close)}? " if close else ""
    return (
        hint + "`minify backends` lists what torch.compile finds; a backend that a module registers is found only "
        "once that module is imported."
    )


def reduce_command(given_folder: Path, given: dict[str, Any]) -> int:
    """Reduces a Case folder; in place if it is the output folder of an earlier run."""
    started = time.monotonic()
    folder = case_folder(given_folder)
    console = Console(given["quiet"])
    resumes = folder != given_folder and given["out"] is None
    if not (folder / "case.json").exists():
        raise UsageError(f"{folder} is not a Case folder: it has no case.json.")
    _import_torch()
    from minifier.case.store import load
    from minifier.pipeline import Surroundings, adopt, finish

    case = load(folder)
    out = given_folder.absolute() if resumes else output_folder(given["out"], case.script.name)
    settings = settings_from(given, case.script.seconds)
    if not resumes:
        case = adopt(folder, out)
    with _temporary() as work:
        tempfile.tempdir = str(work)
        outcome = finish(case, out, settings, Surroundings(console.say, console.on_probe), started, 0.0)
    console.final(outcome, out)
    return int(EXIT_CODE[outcome.status.value])
