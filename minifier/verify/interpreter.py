"""A fresh interpreter that runs a script, and what is seen of it from outside."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from minifier.case.variables import ordinary
from minifier.consumption import descendants
from minifier.failure import Failure, Fingerprint, Kind
from minifier.failure import observed as observed_module
from minifier.memory import MemoryWatch, free_memory, limit_data
from minifier.processes import LOOK
from minifier.torch_private import inductor_headers
from minifier.verify.reading import End, failure_shown

_SHARE = 0.3  # of the memory that is free, for each of the scripts that run side by side


_running: set[int] = set()  # interpreters that have been started and not ended


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a script: how it ended, and the failure that it showed, if it did not end well."""

    status: int | None
    failure: Failure | None
    output: str
    seconds: float


def clean_environment(
    folder: Path, extra_path: Sequence[str] = (), more: Collection[str] | None = None
) -> dict[str, str]:
    """This process's environment without what changes torch or Python, and with caches in `folder`; with `more` without
    all but these variables and those that any shell has."""
    kept = ordinary(os.environ, more)
    for variable in ("TMPDIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "XDG_CACHE_HOME"):
        kept[variable] = str(folder / variable.lower())
        (folder / variable.lower()).mkdir()
    headers = inductor_headers()
    if headers is not None:
        (folder / "tmpdir" / headers.name).symlink_to(headers)
    entries = [e for e in kept.get("PYTHONPATH", "").split(os.pathsep) if e]
    kept["PYTHONPATH"] = os.pathsep.join([*extra_path, *map(os.path.abspath, entries)])
    return kept


class Started:
    """An interpreter that runs the script; killed and cleaned away at the end of the `with`. `sought` is what its end
    is read by; `memory` is in bytes, and never more than a share of what is free. Without it, and where the script is
    not one that takes all memory, it may reserve what it likes, and use most of what is free."""

    def __init__(
        self,
        script: Path,
        extra_path: Sequence[str],
        timeout: float,
        sought: Fingerprint | None,
        match_log: str | None,
        memory: int | None = None,
        more: Collection[str] | None = None,
    ) -> None:
        self.sought, self.match_log = sought, match_log
        self.folder = Path(tempfile.mkdtemp(prefix="minify-verify-"))
        self.observer = self.folder / "observer"
        work = self.folder / "empty"
        for place in (self.observer, work):
            place.mkdir()
        for file in script.parent.iterdir():
            if file == script or file.suffix == ".safetensors":
                shutil.copyfile(file, work / file.name)
        shutil.copyfile(Path(__file__).with_name("_sitecustomize.py"), self.observer / "sitecustomize.py")
        shutil.copyfile(observed_module.__file__, self.observer / "observed.py")
        if sought is not None and sought.kind is Kind.SILENT_FALLBACK:
            (self.observer / "watch-logs").touch()
        environment = clean_environment(self.folder, extra_path, more)
        environment["PYTHONPATH"] = os.pathsep.join(
            entry for entry in (str(self.observer), environment["PYTHONPATH"]) if entry
        )
        self.started = time.monotonic()
        self.deadline = self.started + timeout
        self.output = (self.folder / "output").open("wb")
        limits: list[int] = []
        self.memory: MemoryWatch | None = None
        if memory is not None or (sought is not None and sought.kind is Kind.OUT_OF_MEMORY):
            limits = [limit for limit in (memory, free_memory(_SHARE)) if limit is not None]
        else:
            self.memory = MemoryWatch()
        self.process = subprocess.Popen(
            [sys.executable, script.name],
            cwd=work,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=(lambda: limit_data(min(limits))) if limits else None,  # noqa: PLW1509 - no threads here
        )

        _running.add(self.process.pid)

    def wait(self) -> Run:
        """Waits for the end; kills all that is left of the session."""
        timed_out = not self._has_ended()
        self.kill()
        seconds = time.monotonic() - self.started
        status = None if timed_out else self.process.returncode
        output = (self.folder / "output").read_text(errors="replace")
        failure = failure_shown(End(status, output, seconds, self.observer), self.sought, self.match_log)
        return Run(status, failure, output, seconds)

    def _has_ended(self) -> bool:
        """Waits until the interpreter has ended, or its time."""
        pause = LOOK
        while (left := self.deadline - time.monotonic()) > 0:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(min(left, pause))
                return True
            if self.memory is not None:  # of all that run side by side
                pause = self.memory.look([pid for each in _running for pid in (each, *descendants(each))]) or LOOK
                if self.memory.exhausted:
                    self.kill()
        return self.process.poll() is not None

    def kill(self) -> None:
        """Ends the interpreter and all it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        _running.discard(self.process.pid)
        self.output.close()

    def __enter__(self) -> Started:
        return self

    def __exit__(self, *_: object) -> None:
        """Removes every trace of the run."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def run_script(
    script: Path,
    timeout: float,
    extra_path: Sequence[str] = (),
    sought: Fingerprint | None = None,
    match_log: str | None = None,
    more: Collection[str] | None = None,
) -> Run:
    """Runs the script once in a fresh interpreter; `timeout` in seconds, `more` as in `clean_environment`. What it
    shows is read as a sighting of `sought`, where a script alone does not tell: the stage of a death, what a failed
    assertion compares."""
    with Started(script, extra_path, timeout, sought, match_log, more=more) as started:
        return started.wait()
