"""Run a script in a fresh interpreter and read its end from outside."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from minifier.emit.files_beside import files_beside
from minifier.failure import Failure, Fingerprint, Kind, Stage, matches, same
from minifier.process.child import Child, supervise
from minifier.process.interpreters import Interpreter, Interpreters, clean_environment
from minifier.process.memory import MemoryWatch, free_memory, limit_data
from minifier.torch_private import inductor_headers, link_libraries
from minifier.verify.shown_failure import End, failure_shown

_MEMORY_FRACTION = 0.3  # of the free memory: the limit for each of the scripts that run at once


@dataclass(frozen=True, slots=True)
class ScriptRun:
    """A run of a script: the exit status (None after a timeout), and the failure that showed, if any.

    `packages` are the top-level modules imported by the end of the run; empty if the interpreter died. `exhausted`:
    this tool killed the interpreter for its memory use.
    """

    status: int | None
    failure: Failure | None
    output: str
    seconds: float
    packages: tuple[str, ...] = ()
    exhausted: bool = False


@dataclass(frozen=True, slots=True)
class Conditions:
    """The failure that a script must show, and the conditions of its runs.

    `sought` tells how to read the script's end; None if no failure is known. `timeout` is in seconds. `extra_path` are
    folders for the import path. `match` and `match_log` are the user's regular expressions for messages and for log
    records. With `any_stage` the stage, which a script's end does not show, is ignored. `memory` is each run's limit in
    bytes, capped at a fraction of the free memory. With None, a script may reserve any amount and use most of the free
    memory, unless the sought failure is running out of memory. `more` are environment variables that the script gets in
    addition to the ordinary variables; None means all. `given` are variables with values of their own. `renamed` maps
    variables of the script to the nodes of the reduced graph that they stand for.
    """

    sought: Fingerprint | None
    timeout: float
    extra_path: Sequence[str] = ()
    match: str | None = None
    match_log: str | None = None
    memory: int | None = None
    more: Collection[str] | None = None
    given: Mapping[str, str] = field(default_factory=dict)
    any_stage: bool = False
    interpreters: Interpreters = field(default_factory=Interpreters)
    renamed: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_unlimited(self) -> bool:
        """Whether the script may use most of the free memory."""
        return self.memory is None and (self.sought is None or self.sought.kind is not Kind.OUT_OF_MEMORY)

    def are_met(self, run: ScriptRun) -> bool:
        """Return whether a run showed the sought failure."""
        assert self.sought is not None, "a failure is sought"
        if run.failure is None:
            return False
        sought, seen = self.sought, run.failure
        if self.any_stage:
            seen = replace(seen, fingerprint=replace(seen.fingerprint, stage=sought.stage))
        # The pattern is for messages of exceptions; a failed comparison has assert_close's message.
        if self.match is not None and sought.stage is not Stage.COMPARE and sought.kind is not Kind.SILENT_FALLBACK:
            return matches(sought, seen, self.match)
        return same(sought, seen.fingerprint, renamed=self.renamed)


class Started:
    """An interpreter that runs a script. Leaving the `with` block kills the process and removes its files.

    `ahead` allows an interpreter that was started before the script existed.
    """

    def __init__(self, script: Path, conditions: Conditions, ahead: bool = False) -> None:
        self._conditions = conditions
        interpreters = conditions.interpreters
        may_be_ahead = ahead and conditions.is_unlimited and conditions.more == () and not conditions.given
        started_ahead = interpreters.take_ahead(script) if may_be_ahead else None
        self.ahead = started_ahead is not None
        self.interpreter = started_ahead or Interpreter(interpreters.launch)
        self.folder, self.observer = self.interpreter.folder, self.interpreter.observer
        self._looks = [MemoryWatch(interpreters.running)] if conditions.is_unlimited else []
        try:
            self.child = self._start(script)
        except BaseException:
            self.interpreter.remove()
            raise
        self.child.limit(conditions.timeout)
        interpreters.running.add(self.child)

    def _start(self, script: Path) -> Child:
        conditions = self._conditions
        read = files_beside(script.read_text(encoding="utf-8", errors="replace"))
        for file in script.parent.iterdir():
            if file == script or file.suffix == ".safetensors" or file.name in read:
                shutil.copyfile(file, self.interpreter.work / file.name)
        if conditions.sought is not None and conditions.sought.kind is Kind.SILENT_FALLBACK:
            (self.observer / "watch-logs").touch()
        if self.ahead:
            self._link_compiled()
            return self.interpreter.go_on(conditions.extra_path)
        environment = clean_environment(self.folder, conditions.extra_path, conditions.more) | dict(conditions.given)
        self._link_compiled()
        memory = [] if conditions.is_unlimited else [conditions.memory, free_memory(_MEMORY_FRACTION)]
        limits = [limit for limit in memory if limit is not None]
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
        supervise([child], tick, self._looks)
        self.kill()
        status, seconds = None if child.timed_out else child.code, child.seconds
        output = self.interpreter.output()
        end = End(status, output, seconds, self.observer)
        failure = failure_shown(end, self._conditions.sought, self._conditions.match_log)
        if failure is not None:  # the message is quoted where this folder is gone
            failure = replace(failure, message=failure.message.replace(f"{self.interpreter.work}/", ""))
        return ScriptRun(status, failure, output, seconds, self._packages(), bool(child.exhausted))

    def _packages(self) -> tuple[str, ...]:
        told = self.observer / "packages.json"
        return tuple(json.loads(told.read_text(encoding="utf-8"))) if told.exists() else ()

    def kill(self) -> None:
        """Kill the interpreter and all its descendants."""
        self.interpreter.kill()
        self._conditions.interpreters.running.discard(self.child)

    def __enter__(self) -> Started:
        return self

    def __exit__(self, *_: object) -> None:
        """Kill the interpreter and remove its files."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def run_script(script: Path, conditions: Conditions, tick: Callable[[], object] = lambda: None) -> ScriptRun:
    """Run the script once in a fresh interpreter.

    A script's end shows neither the stage of a death, nor whether an assertion compares inputs or gradients. The
    returned failure takes both from the sought failure.
    """
    with Started(script, conditions) as started:
        return started.wait(tick)
