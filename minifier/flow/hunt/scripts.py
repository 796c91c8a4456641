"""The scripts of a folder as programs: each is tried as `minify run` runs it, in a process of its own."""

from __future__ import annotations

import ast
import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from minifier.capturing import script
from minifier.capturing.capture import run_in_eager, run_script
from minifier.capturing.script_limits import Terms
from minifier.data.case import EMPTY_GRAPH, TORCH_COMPILE, Case, Level
from minifier.data.case.run_folder import RunFolder
from minifier.data.case.store import save, write_atomically
from minifier.data.failure import Failure, Kind, same
from minifier.data.settings import Settings
from minifier.data.torch_names import INVALID_BACKEND
from minifier.errors import UsageError
from minifier.flow.attempt import Run
from minifier.flow.folders import Asked, note_run
from minifier.flow.hunt.programs import Program, ProgramFilter
from minifier.flow.hunt.records import OF_SCRIPT
from minifier.flow.hunt.trial import Answer, Trial, as_outside_of_forks
from minifier.flow.keep_case import call_to_reduce, keep_case, look_further
from minifier.flow.no_failure import fails_in_eager_too
from minifier.process.descendants import adopt_orphans
from minifier.torch_side.torch_private.dynamo import INDUCTOR

SCRIPTS = "programs"
"""The name of the source, ahead of the folder's: `programs DIR`."""

_BY_ITSELF = "own backends"  # the column of scripts that name what compiles them
_TIMES_THE_LIMIT = 2  # of a backend call, that a run of a script may take


def scripts(folder: str, wanted: ProgramFilter) -> Iterator[Program]:
    """Yield the scripts of the folder, but not those of its sub-folders. Raises UsageError if there is no folder."""
    if not os.path.isdir(folder):
        raise UsageError(f"{SCRIPTS} DIR: there is no folder {folder!r}.")
    for path in sorted(Path(folder).glob("*.py")):
        if path.is_file() and not path.name.startswith(".") and wanted.has(path.name):
            variant = _BY_ITSELF if _names_a_backend(path) else ""
            yield Program(path.name, variant, 0, _make, has_kin=False, script=path)


def _make() -> NoReturn:
    raise ValueError("a script is run as a whole")


def _names_a_backend(path: Path) -> bool:
    """Whether a call that compiles has a `backend=` other than the default."""
    with contextlib.suppress(SyntaxError, ValueError, RecursionError, OSError):
        calls = [node for node in ast.walk(ast.parse(path.read_bytes())) if isinstance(node, ast.Call)]
        of_compile = (call for call in calls if "compile" in ast.unparse(call.func))
        names = (ast.unparse(given.value) for call in of_compile for given in call.keywords if given.arg == "backend")
        return any(name != repr(INDUCTOR) for name in names)
    return False


def try_script(program: Program, backend: str, modules: tuple[str, ...], settings: Settings, place: Path) -> Trial:
    """Run the script as `minify run` does, up to the reduction: where it names no backend, compiled by this one.

    This takes a process of its own. Each failure gets a numbered folder in `place`, as an interrupted `minify run`
    leaves one: `minify reduce` goes on with it. Where failures look alike, only the first of them gets one.
    """
    adopt_orphans()
    RunFolder(place).clear(keep=False)  # left by a try that was killed
    asked = script.Program(str(program.script))
    if not program.variant and backend != INDUCTOR:
        asked = script.Program(asked.target, backend=backend, modules=modules)
    terms = Terms(settings.timeout, settings.memory, seconds=_TIMES_THE_LIMIT * (settings.timeout or float("inf")))
    run, work = Run(settings), Path(tempfile.mkdtemp(prefix="runs-"))
    found = look_further(run_script(asked, work, terms), run)
    captured, end = found.captured, found.captured.failure
    in_eager = run_in_eager(found, "in-eager") if end is not None else captured
    # A graph that fails by itself has torch.fx's words in its message.
    is_alike = end is not None and in_eager.failure is not None and end.line == in_eager.failure.line
    in_eager_too = is_alike or fails_in_eager_too(captured, in_eager)
    kept: list[Failure] = []
    unsaved = ""
    for failing in captured.failing:
        shown = failing.failure.fingerprint
        is_known = any(same(shown, each.fingerprint) for each in kept)
        if is_known or (in_eager_too and shown.kind is Kind.EXCEPTION):
            continue
        call = call_to_reduce(found, failing, run).failing
        if call.unsaved:
            unsaved = unsaved or failing.failure.line
        else:
            folder = RunFolder(place / str(len(kept)))
            note_run(folder.path, Asked(found.program))
            case = keep_case(call.folder, folder.path, found.program.source())
            save(as_outside_of_forks(case), folder.case)
            kept.append(failing.failure)
    if kept:
        return Trial(Answer.FAILS, kept[0].line, raised=kept[0].fingerprint.kind is Kind.EXCEPTION)
    if unsaved:
        return Trial(Answer.FAILS, unsaved)
    if end is None:
        fallbacks = found.compared.fallbacks if found.compared is not None else ()
        if left := [each.sentence for each in fallbacks if each.is_left]:
            return Trial(Answer.FALLBACK, left[0])
        return Trial(Answer.WORKS if captured.graphs else Answer.NO_GRAPH)
    said = f"it does not end in {terms.seconds:.0f} s" if captured.end.timed_out else end.line
    if in_eager.failure is not None or INVALID_BACKEND in captured.traceback:
        by_itself = f"without the backend as well: {in_eager.failure.line}" if in_eager.failure is not None else said
        return Trial(Answer.LEFT_OUT, by_itself)
    if not captured.end.timed_out:  # what is reduced is the script itself, and nothing of it is gone yet
        folder = RunFolder(place / "0")
        note_run(folder.path, Asked(found.program))
        write_atomically(folder.reached, "{}")
        save(Case(EMPTY_GRAPH, (), TORCH_COMPILE, end, level=Level.SOURCE), folder.path / OF_SCRIPT)
    return Trial(Answer.FAILS, said, raised=bool(captured.error))
