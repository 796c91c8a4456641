"""Fresh interpreters for the verification, with this process's import path; some start ahead of time."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from minifier.data.case.switches import ordinary
from minifier.process.channel import ChannelEnded, Sender
from minifier.process.child import Child
from minifier.process.descriptors import keep_from_scripts, let_go, out_of_the_way
from minifier.process.machine import available, cores

SCRIPT = "repro.py"
_PACKAGE = Path(__file__).parents[1]
_MIN_FREE_BYTES = 4 * 2**30  # with which an interpreter is started ahead
_MAX_AHEAD = 2
_WAITS = "waits"  # the file next to the sitecustomize with the descriptor of the pipe to wait at


Launch = Callable[..., Child]
"""Starts the interpreter of a script, as `launch_fresh` does."""


def launch_fresh(
    script: str,
    work: Path,
    environment: dict[str, str],
    output: BinaryIO,
    first: Callable[[], None] | None,
    files: Sequence[int],
) -> Child:
    """Start `python SCRIPT` in the folder `work`, in a session of its own.

    Both standard streams go to `output`. `first` runs in the new process ahead of Python, which inherits the open files
    `files`.
    """
    return Child.launched(
        [sys.executable, script],
        cwd=work,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        first=first or (lambda: None),
        pass_fds=tuple(files),
    )


class Interpreter:
    """An interpreter that runs a script in `work`, an empty folder of its own.

    Its `sitecustomize` notes in the folder `observer` how the script fails. `child` is None before `start`.
    """

    def __init__(self, launch: Launch = launch_fresh) -> None:
        self._launch = launch
        self.folder = Path(tempfile.mkdtemp(prefix="minify-verify-"))
        self.observer, self.work = self.folder / "observer", self.folder / "empty"
        self.child: Child | None = None
        self.word: Sender | None = None
        self._printed: BinaryIO
        for place in (self.observer, self.work):
            place.mkdir()
        shutil.copyfile(_PACKAGE / "repro" / "verify" / "_sitecustomize.py", self.observer / "sitecustomize.py")
        shutil.copyfile(_PACKAGE / "data" / "failure" / "observed.py", self.observer / "observed.py")

    def start(
        self,
        script: str,
        environment: dict[str, str],
        first: Callable[[], None] | None = None,
        given: Sequence[int] = (),
    ) -> Child:
        """Start the interpreter; the new process calls `first`, and inherits the descriptors `given`."""
        path = [str(self.observer), *filter(None, [environment["PYTHONPATH"]])]
        self._printed = (self.folder / "output").open("wb")
        environment = {**environment, "PYTHONPATH": os.pathsep.join(path)}
        self.child = self._launch(script, self.work, environment, self._printed, first, given)
        return self.child

    def go_on(self, path: Sequence[str], variables: Mapping[str, str]) -> Child:
        """Let an interpreter that waits run its script, with folders on its import path and environment variables."""
        assert self.child is not None, "only an interpreter that was started waits"
        self.say(path=list(path), variables=dict(variables))
        self._close()
        return self.child

    def say(self, **word: list[str] | dict[str, str]) -> None:
        """Send a message to an interpreter that waits: `imports` (modules), or `path` and `variables`, which end it."""
        assert self.word is not None, "only an interpreter that waits has a pipe"
        with contextlib.suppress(ChannelEnded):  # it has died, which its exit status shows
            self.word.send(**word)

    def output(self) -> str:
        """Return the printed text, standard error included."""
        return (self.folder / "output").read_text(errors="replace")

    def kill(self) -> None:
        """Kill the interpreter, if started, with all its descendants."""
        if self.child is None:
            return
        self.child.kill()
        self._close()
        self._printed.close()

    def remove(self) -> None:
        """Kill the interpreter, and remove its folder."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _close(self) -> None:
        if self.word is not None:
            let_go(self.word.file)
            self.word = None


def clean_environment(
    folder: Path, extra_path: Sequence[str] = (), more: Collection[str] | None = None
) -> dict[str, str]:
    """Return this process's environment without variables that change torch or Python, and with caches in `folder`.

    With `more`, only these variables and the ones of every shell stay.
    """
    environment = ordinary(os.environ, more)
    for variable in ("TMPDIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "XDG_CACHE_HOME"):
        environment[variable] = str(folder / variable.lower())
        (folder / variable.lower()).mkdir()
    entries = [e for e in environment.get("PYTHONPATH", "").split(os.pathsep) if e]
    environment["PYTHONPATH"] = os.pathsep.join([*extra_path, *map(os.path.abspath, entries)])
    return environment


def may_do_more() -> bool:
    """Whether a second core and memory are free while the user's script runs."""
    return cores() > 1 and available() > _MIN_FREE_BYTES


class Interpreters:
    """Starts the interpreters of a verification; some wait for their script.

    `launch` starts an interpreter. Tests fork instead, and start none ahead (`most_ahead`). `running` holds the
    children that run a script.
    """

    def __init__(self, launch: Launch = launch_fresh, most_ahead: int = _MAX_AHEAD) -> None:
        self.launch = launch
        self.waiting: list[Interpreter] = []
        self.running: set[Child] = set()
        self._most_ahead = most_ahead
        self._wanted = 0

    def want_ahead(self, count: int) -> None:
        """Set how many interpreters may still be started ahead."""
        self._wanted = min(count, self._most_ahead)

    def start_ahead(self) -> None:
        """Start an interpreter ahead of its script, if wanted and if the machine has room.

        The interpreter imports torch and waits, until `end_ahead` or the end of this process.
        """
        if self._wanted < 1 or not may_do_more():
            return
        self._wanted -= 1
        with contextlib.suppress(OSError):  # no room after all: the verification starts its own
            interpreter = Interpreter(self.launch)
            theirs, ours = os.pipe()
            interpreter.word = Sender(keep_from_scripts(out_of_the_way(ours)))
            try:
                (interpreter.observer / _WAITS).write_text(str(theirs))
                interpreter.start(SCRIPT, clean_environment(interpreter.folder, more=()), given=(theirs,))
            except OSError:
                shutil.rmtree(interpreter.folder, ignore_errors=True)
                let_go(interpreter.word.file)
                raise
            finally:
                os.close(theirs)
            self.waiting.append(interpreter)

    def import_ahead(self, modules: Sequence[str]) -> None:
        """Let the waiting interpreters import these modules too."""
        for interpreter in self.waiting:
            interpreter.say(imports=list(modules))

    def take_ahead(self, script: Path) -> Interpreter | None:
        """Take a waiting interpreter for the script, or None.

        A script that sets environment variables before importing torch needs a new interpreter.
        """
        first, _, _ = script.read_text(encoding="utf-8").partition("import torch\n")
        if script.name != SCRIPT or "environ" in first:
            return None
        while self.waiting:
            interpreter = self.waiting.pop(0)
            if interpreter.child is not None and not interpreter.child.has_ended:
                return interpreter
            interpreter.remove()
        return None

    def end_ahead(self) -> None:
        """End the waiting interpreters."""
        self.want_ahead(0)
        while self.waiting:
            self.waiting.pop().remove()


def _has_programs_folder() -> bool:
    """Whether the first entry is the program's folder: not with `-P`, `-I` or PYTHONSAFEPATH."""
    return not (sys.flags.isolated or getattr(sys.flags, "safe_path", False))  # Python 3.10 has no `safe_path`


def ordinary_path() -> tuple[str, ...]:
    """Return the import path without the program's folder."""
    return tuple(sys.path[_has_programs_folder() :])


def replace_programs_folder(folders: Sequence[str]) -> None:
    """Put these folders in the place of the program's folder, which is the tool's own."""
    sys.path[: _has_programs_folder()] = folders
