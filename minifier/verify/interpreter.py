"""A fresh interpreter that runs a script, and what is seen of it from outside."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from minifier.failure import Failure, Fingerprint, Kind
from minifier.process.interpreters import Interpreter, clean_environment, take_ahead
from minifier.process.memory import MemoryWatch, free_memory, limit_data
from minifier.process.steps import LOOK
from minifier.process.usage import descendants
from minifier.torch_private import inductor_headers, link_libraries
from minifier.verify.shown_failure import End, failure_shown

_SHARE = 0.3  # of the memory that is free, for each of the scripts that run side by side


_running: set[int] = set()  # interpreters that have been started and not ended


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a script: how it ended, and the failure that it showed, if it did not end well."""

    status: int | None
    failure: Failure | None
    output: str
    seconds: float


class Started:
    """An interpreter that runs the script; killed and cleaned away at the end of the `with`. `sought` is what its end
    is read by; `memory` is in bytes, and never more than a share of what is free. Without it, and where the script is
    not one that takes all memory, it may reserve what it likes, and use most of what is free. With `ahead` it may be an
    interpreter that was started before there was a script."""

    def __init__(
        self,
        script: Path,
        extra_path: Sequence[str],
        timeout: float,
        sought: Fingerprint | None,
        match_log: str | None,
        memory: int | None = None,
        more: Collection[str] | None = None,
        ahead: bool = False,
    ) -> None:
        self.sought, self.match_log = sought, match_log
        plain = memory is None and (sought is None or sought.kind is not Kind.OUT_OF_MEMORY)
        taken = take_ahead(script) if ahead and plain and more == () else None
        self.ahead = taken is not None
        self.interpreter = taken or Interpreter(Path(tempfile.mkdtemp(prefix="minify-verify-")))
        self.folder, self.observer = self.interpreter.folder, self.interpreter.observer
        self.started = time.monotonic()
        self.deadline = self.started + timeout
        self.memory = MemoryWatch() if plain else None
        try:
            self._start(script, extra_path, [] if plain else [memory, free_memory(_SHARE)], more)
        except BaseException:
            self.interpreter.remove()
            raise
        self.process = self.interpreter.process
        _running.add(self.process.pid)

    def _start(
        self, script: Path, extra_path: Sequence[str], memory: Sequence[int | None], more: Collection[str] | None
    ) -> None:
        for file in script.parent.iterdir():
            if file == script or file.suffix == ".safetensors":
                shutil.copyfile(file, self.interpreter.work / file.name)
        if self.sought is not None and self.sought.kind is Kind.SILENT_FALLBACK:
            (self.observer / "watch-logs").touch()
        limits = [limit for limit in memory if limit is not None]
        if self.ahead:
            self._link_compiled()
            self.interpreter.go_on(extra_path)
        else:
            environment = clean_environment(self.folder, extra_path, more)
            self._link_compiled()
            self.interpreter.start(script.name, environment, (lambda: limit_data(min(limits))) if limits else None)

    def _link_compiled(self) -> None:
        """What takes inductor ten seconds and more each time, and is of the machine, not of the script."""
        link_libraries(self.folder / "torchinductor_cache_dir", checks_only=True)
        headers = inductor_headers()
        if headers is not None:
            (self.folder / "tmpdir" / headers.name).symlink_to(headers)

    def wait(self, tick: Callable[[], object] = lambda: None) -> Run:
        """Waits for the end, and calls `tick` several times a second; kills all that is left of the session."""
        timed_out = not self._has_ended(tick)
        self.kill()
        seconds = time.monotonic() - self.started
        status = None if timed_out else self.process.returncode
        output = self.interpreter.output()
        failure = failure_shown(End(status, output, seconds, self.observer), self.sought, self.match_log)
        return Run(status, failure, output, seconds)

    def _has_ended(self, tick: Callable[[], object]) -> bool:
        """Waits until the interpreter has ended, or its time."""
        pause = LOOK
        while (left := self.deadline - time.monotonic()) > 0:
            tick()
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
        self.interpreter.kill()
        _running.discard(self.process.pid)

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
    tick: Callable[[], object] = lambda: None,
) -> Run:
    """Runs the script once in a fresh interpreter; `timeout` in seconds, `more` as in `clean_environment`. What it
    shows is read as a sighting of `sought`, where a script alone does not tell: the stage of a death, what a failed
    assertion compares."""
    with Started(script, extra_path, timeout, sought, match_log, more=more) as started:
        return started.wait(tick)
