"""Run a script in a fresh interpreter and read its end from outside."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from minifier.failure import Failure, Fingerprint, Kind
from minifier.process.child import Child, supervise
from minifier.process.interpreters import Interpreter, clean_environment, take_ahead
from minifier.process.memory import MemoryWatch, free_memory, limit_data
from minifier.torch_private import inductor_headers, link_libraries
from minifier.verify.shown_failure import End, failure_shown

_MEMORY_FRACTION = 0.3  # of the free memory, the limit for each of the scripts that run at once

_running: set[Child] = set()  # interpreters with a script that have not ended


@dataclass(frozen=True, slots=True)
class ScriptRun:
    """One run of a script: its exit status, None if it was killed, and the failure that it showed, if any.

    `packages` are the top-level modules that it had imported at its end; none are known of one that died.
    """

    status: int | None
    failure: Failure | None
    output: str
    seconds: float
    packages: tuple[str, ...] = ()


class Started:
    """An interpreter that runs a script; leaving the `with` kills it and removes its files.

    `sought` tells how to read the script's end. `memory` is the limit in bytes, capped at a fraction of the free
    memory. Without `memory`, unless running out of memory is sought, the script may reserve any amount and use most
    of the free memory. `ahead` allows an interpreter that was started before the script existed.
    """

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
        unlimited = memory is None and (sought is None or sought.kind is not Kind.OUT_OF_MEMORY)
        started_ahead = take_ahead(script) if ahead and unlimited and more == () else None
        self.ahead = started_ahead is not None
        self.interpreter = started_ahead or Interpreter(Path(tempfile.mkdtemp(prefix="minify-verify-")))
        self.folder, self.observer = self.interpreter.folder, self.interpreter.observer
        self.looks = [MemoryWatch(_running)] if unlimited else []
        try:
            limits = [] if unlimited else [memory, free_memory(_MEMORY_FRACTION)]
            self.child = self._start(script, extra_path, limits, more)
        except BaseException:
            self.interpreter.remove()
            raise
        self.child.limit(timeout)
        _running.add(self.child)

    def _start(
        self, script: Path, extra_path: Sequence[str], memory: Sequence[int | None], more: Collection[str] | None
    ) -> Child:
        for file in script.parent.iterdir():
            if file == script or file.suffix == ".safetensors":
                shutil.copyfile(file, self.interpreter.work / file.name)
        if self.sought is not None and self.sought.kind is Kind.SILENT_FALLBACK:
            (self.observer / "watch-logs").touch()
        limits = [limit for limit in memory if limit is not None]
        if self.ahead:
            self._link_compiled()
            return self.interpreter.go_on(extra_path)
        environment = clean_environment(self.folder, extra_path, more)
        self._link_compiled()
        return self.interpreter.start(script.name, environment, (lambda: limit_data(min(limits))) if limits else None)

    def _link_compiled(self) -> None:
        """Share inductor's compiled checks and headers. They depend on the machine alone and take ten seconds."""
        link_libraries(self.folder / "torchinductor_cache_dir", checks_only=True)
        headers = inductor_headers()
        if headers is not None:
            (self.folder / "tmpdir" / headers.name).symlink_to(headers)

    def wait(self, tick: Callable[[], object] = lambda: None) -> ScriptRun:
        """Wait for the end and call `tick` several times a second. Kill all remaining processes of the session."""
        child = self.child
        supervise([child], tick, self.looks)
        self.kill()
        status, seconds = None if child.timed_out else child.code, child.seconds
        output = self.interpreter.output()
        failure = failure_shown(End(status, output, seconds, self.observer), self.sought, self.match_log)
        return ScriptRun(status, failure, output, seconds, self._packages())

    def _packages(self) -> tuple[str, ...]:
        told = self.observer / "packages.json"
        return tuple(json.loads(told.read_text(encoding="utf-8"))) if told.exists() else ()

    def kill(self) -> None:
        """Kill the interpreter and all processes it started."""
        self.interpreter.kill()
        _running.discard(self.child)

    def __enter__(self) -> Started:
        return self

    def __exit__(self, *_: object) -> None:
        """Kill the interpreter and remove its files."""
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
) -> ScriptRun:
    """Run the script once in a fresh interpreter.

    `timeout` is in seconds; `more` is as in `clean_environment`. `sought` adds to the failure what the script itself
    does not tell: the stage of a death, what a failed assertion compares.
    """
    with Started(script, extra_path, timeout, sought, match_log, more=more) as started:
        return started.wait(tick)
