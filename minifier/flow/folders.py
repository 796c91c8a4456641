"""The output folders of runs: choose one, find an interrupted, an earlier or a left one."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import itertools
import json
import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minifier.capturing.running_calls import Running, RunningCalls
from minifier.capturing.script import Program, is_file
from minifier.data.case.files import MARK, is_made_here, marked
from minifier.data.case.run_folder import RESULTS, RunFolder, ignore_results, next_place, numbered, typed_path
from minifier.data.case.store import CASE, RESULT, read_json, write_atomically
from minifier.data.failure.normalise import headline
from minifier.errors import MinifyError, UsageError
from minifier.process.progress import Ui
from minifier.process.temporary import hold, is_held, release

if TYPE_CHECKING:
    from minifier.flow.attempt import Run


STATUS = "status"
SOURCE = "script.json"  # of the script: a Case may need its definitions
_NAME = re.compile(r"unfinished-\d+(-\d+)?")


def new_folder(out: Path) -> tuple[Path, list[Path]]:
    """Make a folder for this process in the output folder.

    Return the folder, and the parents that had to be made, the innermost first.
    """
    new_parents = [place for place in (out, *out.parents) if not place.exists()]
    ignore_results(out)
    out.mkdir(parents=True, exist_ok=True)
    own = out / f"unfinished-{os.getpid()}"
    for place in itertools.chain([own], numbered(own, 2)):
        with contextlib.suppress(FileExistsError):
            place.mkdir()
            return place, new_parents
    raise AssertionError("numbers have an end")


def keep_source(folder: Path, text: str) -> None:
    """Write the script's text into the folder of a process."""
    write_atomically(folder / SOURCE, json.dumps(marked("script", {"source": text})) + "\n")


def kept_source(folder: Path) -> str:
    """Return the script's text from the folder of a process; "" if there is none."""
    data = read_json(folder / SOURCE)
    return data["source"] if isinstance(data, dict) and isinstance(data.get("source"), str) else ""


def is_own_source(folder: Path) -> bool:
    """Whether this user's minify wrote the script's text there on this machine."""
    return is_made_here("script", read_json(folder / SOURCE))


def is_unfinished(out: Path) -> bool:
    """Whether the folder is not empty and has only folders of capturing processes."""
    try:
        names = os.listdir(out)
    except OSError:
        return False
    return bool(names) and all(_NAME.fullmatch(name) for name in names)


def dead_captures(out: Path) -> list[tuple[Path, list[Running]]]:
    """Return the folders of dead processes, with the backend calls that each was in, the last begun first."""
    folders = [out / name for name in sorted(os.listdir(out)) if _NAME.fullmatch(name)]
    return [(folder, _running(folder)) for folder in folders if not is_held(folder / STATUS)]


def clear_finished(out: Path) -> bool:
    """Remove the folders of processes that died in no backend call; return whether all dead processes did."""
    dead = dead_captures(out)
    for folder, running in dead:
        if not running:
            shutil.rmtree(folder, ignore_errors=True)
    return all(not running for _, running in dead)


def _running(folder: Path) -> list[Running]:
    path = folder / STATUS
    return RunningCalls(path).running() if path.is_file() and os.access(path, os.W_OK) else []


def choose_folder(wanted: Path | None, name: str) -> RunFolder:
    """Return the output folder for a run, by default the next free folder; nothing is made yet.

    Raises UsageError for a folder that is not empty, or cannot be written to.
    """
    default_for = name if wanted is None else ""
    if wanted is None:
        wanted = next_place(name)
    elif wanted.exists() and not wanted.is_dir():
        raise UsageError(f"--out {wanted} is a file. Name a folder that is empty or does not exist.")
    elif wanted.is_dir() and any(_entries(wanted)):
        raise UsageError(f"--out {wanted} is not empty. Name a folder that is empty or does not exist.")
    existing = wanted
    while not existing.exists():
        existing = existing.parent
    try:  # permissions alone do not tell: the file system may be read-only, the user root
        tempfile.TemporaryFile(dir=existing).close()  # without a name: a kill leaves nothing
    except OSError as error:
        raise UsageError(
            f"{existing} is not a folder that can be written to ({error.strerror}). Choose another with --out."
        ) from None
    return RunFolder(wanted.absolute(), default_for)


def make_folder(folder: RunFolder) -> RunFolder:
    """Make the output folder. If another run has taken a default folder by now, make the next free folder."""
    while True:
        was_there = folder.path.exists()
        ignore_results(folder.path)
        try:
            folder.path.mkdir(parents=True, exist_ok=not folder.default_for)
            return replace(folder, was_there=was_there)
        except FileExistsError:
            folder = choose_folder(None, folder.default_for)


def _entries(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError as error:
        raise UsageError(f"{folder} cannot be read: {error.strerror}.") from None


def case_folder(given: Path) -> Path:
    """Return the Case folder that `given` names: itself, or the case/ of an output folder.

    Raises UsageError if `given` is not a folder.
    """
    if not given.exists():
        raise UsageError(f"{given} does not exist.")
    if not given.is_dir():
        raise UsageError(f"{given} is not a folder. Give the case/ or minimal/ folder of a run's output.")
    case = RunFolder(given).case
    return case if not (given / CASE).exists() and case.is_dir() else given


RUN_FILE = "run.json"


@dataclass(frozen=True, slots=True)
class Asked:
    """The program to reduce, and the number of the failing graph, if named."""

    program: Program
    graph: int | None = None


def note_run(place: Path, asked: Asked) -> None:
    """Record the program and the graph in the output folder.

    Nothing is recorded of a program that has removed itself or its folder: its run cannot go on by itself.
    """
    place.mkdir(parents=True, exist_ok=True)
    with contextlib.suppress(FileNotFoundError):
        write_atomically(place / RUN_FILE, json.dumps(marked("run", _record(asked)), indent=1) + "\n")


def lock_run(place: Path, run: Run) -> None:
    """Lock the output folder until the run ends, so that no other process takes the run for interrupted.

    Name the run's temporary folder there. A folder that this run has emptied is still locked. Raises UsageError if
    another process works on the folder.
    """
    folder = os.stat(place)
    identity = folder.st_dev, folder.st_ino
    if identity not in run.locked and is_running(place):
        raise UsageError(
            f"{place}: another process works on this folder. Wait for its end, or name another with --out."
        )
    if identity not in run.locked:
        run.locked.add(identity)
        run.ending.callback(release, hold(place))


def is_own_run(place: Path) -> bool:
    """Whether this user's minify wrote run.json in the folder on this machine. Its program may be run again."""
    return is_made_here("run", read_json(place / RUN_FILE))


def asked_there(place: Path) -> Asked | None:
    """Return the program and graph recorded in an output folder, or None if the script has changed."""
    record = _read(place / RUN_FILE)
    try:
        program = Program(
            record["target"],
            tuple(record["arguments"]),
            record["is_module"],
            backend=record["backend"],
            modules=tuple(record["modules"]),
        )
        if not (program.is_module or is_file(program.target)):  # a pipe, which has been read
            return None
        asked = Asked(program, record["graph"])
        return asked if _record(asked) == record else None
    except (LookupError, TypeError, AttributeError, ValueError, OSError, MinifyError):  # missing, or not this tool's
        return None


def _record(asked: Asked) -> dict[str, Any]:
    """Return the contents of run.json: equal records are of the same script, arguments and working folder."""
    program = asked.program
    target = program.said if program.is_module else str(Path(program.said).absolute())
    source = Path(program.said).read_bytes() if program.made_of else program.source().encode(errors="replace")
    digest = hashlib.blake2b(source, digest_size=16).hexdigest()
    return {
        "target": target,
        "arguments": list(program.arguments),
        "folder": os.getcwd(),
        "source": digest,
        "is_module": program.is_module,
        "graph": asked.graph,
        "backend": program.backend,
        "modules": list(program.modules),
    }


def is_run(folder: Path) -> bool:
    """Whether a run has written its record into this folder."""
    return {"target", "source", "graph"} <= _read(folder / RUN_FILE).keys()


def is_finished(folder: Path) -> bool:
    """Whether the folder has a run that came to its end, with a repro: none of its passes was cut off."""
    run = earlier_run(folder)
    is_whole = run.state == "reduced" and "unfinished" not in _part(run.result, "passes").values()
    return is_whole and RunFolder(folder).repro.exists()


def is_running(folder: Path) -> bool:
    """Whether a process still works on the run of this folder."""
    return is_held(folder)


def _can_go_on(folder: Path) -> bool:
    run = RunFolder(folder)
    has_begun = ((run.case / CASE).exists() or run.reached.exists()) and (folder / RUN_FILE).exists()
    return has_begun and not run.result.exists() and not is_running(folder)


def script_there(folder: Path) -> Asked | None:
    """Return the program whose source a run in this folder was reducing when it was interrupted, or None."""
    run = RunFolder(folder)
    return asked_there(folder) if run.reached.exists() and not (run.case / CASE).exists() else None


def goes_on(asked: Asked, ui: Ui, as_source: bool) -> Path | None:
    """Return the output folder of an interrupted run of the same script, if the user agrees to continue; else None.

    With `as_source` the run has to be one that reduces the script itself.
    """
    places = [place for place in RESULTS.glob(f"{glob.escape(asked.program.name)}-*") if _can_go_on(place)]
    record = _record(asked) if places else {}
    same = [each for each in places if _read(each / RUN_FILE) == record and (not as_source or script_there(each))]
    folder = max(same, key=lambda place: (place / RUN_FILE).stat().st_mtime, default=None)
    if folder is None or ui.ask(f"{folder} was interrupted, and the script is the same: continue it?"):
        return folder
    ui.say(f"an earlier run of this script was interrupted: `minify reduce {typed_path(folder)}` goes on with it")
    return None


@dataclass(frozen=True, slots=True)
class EarlierRun:
    """An output folder, its result.json and case/case.json. A record is empty without its file, or if that is damaged.

    A run that has not ended has no result.json.
    """

    path: Path
    result: dict[str, Any]
    case: dict[str, Any]

    @property
    def state(self) -> str:
        """How the run ended, in a word or two."""
        if self.result:
            return str(self.result.get("status", "unknown"))
        if (self.path / RESULT).exists():
            return "damaged"
        return "running" if is_running(self.path) else "interrupted"

    @property
    def failure(self) -> str:
        """The backend, the type and the message's first line, in a line."""
        failure, backend = (_part(self.result or self.case, name) for name in ("failure", "backend"))
        message = headline(str(failure.get("message", "")))
        shown = ": ".join(filter(None, (str(failure.get("type", "")).rpartition(".")[2], message)))
        return f"{backend.get('name', '')}: {shown}" if shown else ""

    @property
    def size(self) -> str:
        """The number of ops, or of statements, before and after."""
        for parts in ("ops", "statements"):
            before, after = self.result.get(f"{parts}_before"), self.result.get(f"{parts}_after")
            if after is not None:
                return f"{before} -> {after} {parts}"
        return ""


def _part(result: dict[str, Any], name: str) -> dict[str, Any]:
    part = result.get(name)
    return part if isinstance(part, dict) else {}


def earlier_run(path: Path) -> EarlierRun:
    """Return the run of an output folder, as far as it came."""
    case = RunFolder(path).case
    return EarlierRun(path, _read(path / RESULT), {} if case.is_symlink() else _read(case / CASE))


def _read(path: Path) -> dict[str, Any]:
    """Return the content of a record without its mark; nothing without the file, or if that is damaged."""
    record = read_json(path)
    return {name: value for name, value in record.items() if name != MARK} if isinstance(record, dict) else {}


def runs_in(folders: Sequence[Path]) -> list[EarlierRun]:
    """Return the runs in these folders, which are runs themselves or hold some; the oldest first.

    No link below them is followed: what it leads to is not theirs to list.
    """
    found = []
    for folder in folders or [RESULTS]:
        if not folder.is_dir() and folders:
            raise UsageError(f"{folder} is not a folder.")
        top = folder.resolve() if folder.is_symlink() else folder
        below = [place for place in top.glob("*") if not place.is_symlink()]
        graphs = [place for run in below for place in run.glob("graph-*") if not place.is_symlink()]
        places = [top, *below, *graphs]
        found += [place for place in places if is_run(place) or _has_ended(place)]
    return [earlier_run(path) for path in sorted(dict.fromkeys(found), key=lambda path: path.stat().st_mtime)]


def _has_ended(folder: Path) -> bool:
    has_case = any((folder / name / CASE).is_file() for name in ("case", "minimal"))
    return has_case and (folder / RESULT).is_file()
