"""Fresh interpreters for the verification: how one is started, and some that are started ahead of it.

Nearly all the time of a short script is that of importing torch. An interpreter that was started ahead has done so when
there is a script to run: it waits for that where Python looks for a `sitecustomize`, before it opens the script. Knows
no torch, so that the first one can be started before this process imports it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, Protocol

from minifier.case.variables import ordinary
from minifier.process.descriptors import keep_from_scripts, let_go, out_of_the_way
from minifier.process.memory import cores, room
from minifier.process.steps import spare

SCRIPT = "repro.py"
_PACKAGE = Path(__file__).parents[1]
_SPARE = 4 * 2**30  # bytes of memory below which nothing is started ahead
_MOST = 2
_WAITS = "waits"  # the file beside the sitecustomize that has the number of the pipe to wait at


class Launched(Protocol):
    """The process of a script, as `subprocess.Popen` has it."""

    pid: int
    returncode: int | None

    def poll(self) -> int | None:
        """Return the exit status, negative for a signal; None while the process runs."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the exit status; `timeout` in seconds. Raises subprocess.TimeoutExpired."""


def launch_fresh(
    script: str,
    work: Path,
    environment: dict[str, str],
    output: BinaryIO,
    first: Callable[[], None] | None,
    files: Sequence[int],
) -> subprocess.Popen[bytes]:
    """Start `python SCRIPT` in the folder `work`, in a session of its own.

    Both standard streams go to `output`. `first` runs in the new process ahead of Python, which inherits the open files
    `files`.
    """
    return subprocess.Popen(
        [sys.executable, script],
        cwd=work,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        preexec_fn=first,  # noqa: PLW1509 - no threads here
        pass_fds=tuple(files),
    )


# How the interpreter of a script is started. Tests put a fork in its place: it has torch imported already.
launch: Callable[..., Launched] = launch_fresh


@dataclass
class Interpreter:
    """One that runs a script in an empty folder of its own: `work`, where the script is to be, `observer`, where what
    watches it notes what it sees, and `output`, what it prints."""

    folder: Path
    observer: Path = field(init=False)
    work: Path = field(init=False)
    process: Launched = field(init=False)
    started: bool = False
    word: int | None = None
    _printed: BinaryIO = field(init=False)

    def __post_init__(self) -> None:
        self.observer, self.work = self.folder / "observer", self.folder / "empty"
        for place in (self.observer, self.work):
            place.mkdir()
        shutil.copyfile(_PACKAGE / "verify" / "_sitecustomize.py", self.observer / "sitecustomize.py")
        shutil.copyfile(_PACKAGE / "failure" / "observed.py", self.observer / "observed.py")

    def start(
        self,
        script: str,
        environment: dict[str, str],
        first: Callable[[], None] | None = None,
        given: Sequence[int] = (),
    ) -> None:
        """Starts it; `first` is done in the new process, which gets the open files `given`."""
        path = [str(self.observer), *filter(None, [environment["PYTHONPATH"]])]
        self._printed = (self.folder / "output").open("wb")
        environment = {**environment, "PYTHONPATH": os.pathsep.join(path)}
        self.process = launch(script, self.work, environment, self._printed, first, given)
        self.started = True
        spare(self.process.pid)

    def go_on(self, path: Sequence[str]) -> None:
        """Has one that was started ahead run its script, with these folders on its import path."""
        self.say(path=list(path))
        self._close()

    def say(self, **word: list[str]) -> None:
        """Gives one that was started ahead a word: `imports`, or that of `go_on`."""
        assert self.word is not None
        with contextlib.suppress(BrokenPipeError):  # it has died: its end will tell
            os.write(self.word, json.dumps(word).encode() + b"\n")

    def output(self) -> str:
        """What it has printed, standard error included."""
        return (self.folder / "output").read_text(errors="replace")

    def kill(self) -> None:
        """Ends it and all it started, if it was started."""
        if not self.started:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._close()
        self._printed.close()

    def remove(self) -> None:
        """Ends it, and removes every trace."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _close(self) -> None:
        if self.word is not None:
            let_go(self.word)
            self.word = None


def clean_environment(
    folder: Path, extra_path: Sequence[str] = (), more: Collection[str] | None = None
) -> dict[str, str]:
    """This process's environment without what changes torch or Python, and with caches in `folder`; with `more` without
    all but these variables and those that any shell has."""
    kept = ordinary(os.environ, more)
    for variable in ("TMPDIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "XDG_CACHE_HOME"):
        kept[variable] = str(folder / variable.lower())
        (folder / variable.lower()).mkdir()
    entries = [e for e in kept.get("PYTHONPATH", "").split(os.pathsep) if e]
    kept["PYTHONPATH"] = os.pathsep.join([*extra_path, *map(os.path.abspath, entries)])
    return kept


_waiting: list[Interpreter] = []
_wanted = 0


def want_ahead(count: int) -> None:
    """How many interpreters are worth starting ahead from now on."""
    global _wanted
    _wanted = min(count, _MOST)


def may_do_more() -> bool:
    """Whether there is a second core, and memory, for what is done beside the user's script."""
    return cores() > 1 and (room() or 0) > _SPARE


def start_ahead() -> None:
    """Starts one more interpreter that imports torch and then waits for a script, if one more is wanted and the machine
    has room for it. To be ended with `end_ahead`; it ends itself if this process does."""
    global _wanted
    if _wanted < 1 or not may_do_more() or launch is not launch_fresh:
        return
    _wanted -= 1
    with contextlib.suppress(OSError):  # no room after all: the verification starts its own
        made = Interpreter(Path(tempfile.mkdtemp(prefix="minify-verify-")))
        theirs, ours = os.pipe()
        made.word = keep_from_scripts(out_of_the_way(ours))
        try:
            (made.observer / _WAITS).write_text(str(theirs))
            made.start(SCRIPT, clean_environment(made.folder, more=()), given=(theirs,))
        except OSError:
            shutil.rmtree(made.folder, ignore_errors=True)
            let_go(made.word)
            raise
        finally:
            os.close(theirs)
        _waiting.append(made)


def import_ahead(modules: Sequence[str]) -> None:
    """Has those that wait import these modules as well."""
    for waiting in _waiting:
        waiting.say(imports=list(modules))


def take_ahead(script: Path) -> Interpreter | None:
    """One that was started ahead and still waits, if there is one and this script is for it: not one that sets
    environment variables before it imports torch. It is the caller's from then on."""
    first, _, _ = script.read_text(encoding="utf-8").partition("import torch\n")
    if script.name != SCRIPT or "environ" in first:
        return None
    while _waiting:
        taken = _waiting.pop(0)
        if taken.process.poll() is None:
            return taken
        taken.remove()
    return None


def end_ahead() -> None:
    """Ends those that nobody took."""
    want_ahead(0)
    while _waiting:
        _waiting.pop().remove()
