"""The honest test: `python repro.py` in new interpreters, in empty folders, with a scrubbed environment."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from minifier.failure import Failure, Fingerprint, Kind, Stage, matches, same
from minifier.failure import observed as observed_module
from minifier.failure.fingerprint import failure_of, was_wrapped
from minifier.torch_private import inductor_headers

RUNS = 3
_SCRUBBED = ("TORCH", "PYTORCH", "MINIFY", "AOT_", "TRITON", "PYTHON")
_KEPT = {"PYTHONPATH", "PYTHONHOME"}

# Put on the path of the interpreter under observation, where Python itself looks for it. All it does is
# note the exception that ends the interpreter; it takes itself off the path and lets the user's own
# sitecustomize, if there is one, take its turn.
_SITECUSTOMIZE = """\
import importlib.machinery, importlib.util, json, os, sys
here = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != here]
paths = [e for e in os.environ.get("PYTHONPATH", "").split(os.pathsep) if e and e != here]
if paths:
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
else:
    os.environ.pop("PYTHONPATH", None)
spec = importlib.util.spec_from_file_location("_observed", os.path.join(here, "observed.py"))
observed = importlib.util.module_from_spec(spec)
spec.loader.exec_module(observed)
def write(links, text):
    with open(os.path.join(here, "seen.json"), "w") as file:
        json.dump({"links": links, "text": text}, file)
observed.report_at_exit(write)
theirs = importlib.machinery.PathFinder.find_spec("sitecustomize", sys.path)
if theirs is not None:
    sys.modules["sitecustomize"] = importlib.util.module_from_spec(theirs)
    theirs.loader.exec_module(sys.modules["sitecustomize"])
"""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a script: how it ended, and the failure that it showed, if it did not end well."""

    status: int | None
    failure: Failure | None
    output: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Verification:
    """Several runs of a repro, and in how many of them the sought failure showed."""

    runs: tuple[Run, ...]
    same: int
    seconds: float

    @property
    def holds(self) -> bool:
        """Whether every run showed the failure."""
        return bool(self.runs) and self.same == len(self.runs)


def clean_environment(folder: Path, extra_path: Sequence[str] = ()) -> dict[str, str]:
    """This process's environment without what changes torch or Python, and with caches in `folder`."""
    kept = {k: v for k, v in os.environ.items() if k in _KEPT or not k.startswith(_SCRUBBED)}
    for variable in ("TMPDIR", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "XDG_CACHE_HOME"):
        kept[variable] = str(folder / variable.lower())
        (folder / variable.lower()).mkdir()
    headers = inductor_headers()
    if headers is not None:
        (folder / "tmpdir" / headers.name).symlink_to(headers)
    entries = [e for e in kept.get("PYTHONPATH", "").split(os.pathsep) if e]
    kept["PYTHONPATH"] = os.pathsep.join([*extra_path, *map(os.path.abspath, entries)])
    return kept


def _stage(links: list[dict[str, object]]) -> Stage:
    """Where an exception that ended a script came from: Dynamo's call of the backend, or the run after it."""
    for link in links:
        bases, frames = link["bases"], link["frames"]
        assert isinstance(bases, list) and isinstance(frames, list)
        if "torch._dynamo.exc.ShortenTraceback" in bases or any(f[1] == "_call_user_compiler" for f in frames):
            return Stage.COMPILE
    return Stage.COMPILE if was_wrapped(links) else Stage.RUN


class _Started:
    """An interpreter that runs the script."""

    def __init__(self, script: Path, extra_path: Sequence[str], timeout: float) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="minify-verify-"))
        self.observer = self.folder / "observer"
        work = self.folder / "empty"
        for place in (self.observer, work):
            place.mkdir()
        for file in script.parent.iterdir():
            if file == script or file.suffix == ".safetensors":
                shutil.copyfile(file, work / file.name)
        (self.observer / "sitecustomize.py").write_text(_SITECUSTOMIZE, encoding="utf-8")
        shutil.copyfile(observed_module.__file__, self.observer / "observed.py")
        environment = clean_environment(self.folder, extra_path)
        environment["PYTHONPATH"] = os.pathsep.join(
            entry for entry in (str(self.observer), environment["PYTHONPATH"]) if entry
        )
        self.started = time.monotonic()
        self.deadline = self.started + timeout
        self.output = (self.folder / "output").open("wb")
        self.process = subprocess.Popen(
            [sys.executable, script.name],
            cwd=work,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=self.output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def wait(self, sought: Fingerprint | None) -> Run:
        """Waits for the end; kills all that is left of the session."""
        timed_out = False
        try:
            self.process.wait(max(0.0, self.deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            timed_out = True
        self.kill()
        seconds = time.monotonic() - self.started
        output = (self.folder / "output").read_text(errors="replace")
        status = self.process.returncode
        stage = sought.stage if sought is not None else Stage.RUN
        failure = self._seen(output, stage)
        if timed_out:
            text = f"no end after {seconds:.0f} s"
            failure = Failure(Fingerprint(stage, Kind.TIMEOUT, message="no end"), Kind.TIMEOUT.value, text, output)
        return Run(None if timed_out else status, failure, output, seconds)

    def _seen(self, output: str, stage: Stage) -> Failure | None:
        record = self.observer / "seen.json"
        if record.exists():
            seen = json.loads(record.read_text(encoding="utf-8"))
            return failure_of(_stage(seen["links"]), seen["links"], seen["text"])
        status = self.process.returncode
        if status == 0:
            return None
        kind, text = Kind.EXIT, f"exit status {status}"
        if status < 0:
            kind, text = Kind.SIGNAL, signal.Signals(-status).name
        return Failure(Fingerprint(stage, kind, message=text), kind.value, text, output)

    def kill(self) -> None:
        """Ends the interpreter and all it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.output.close()

    def clean(self) -> None:
        """Removes every trace of the run."""
        shutil.rmtree(self.folder, ignore_errors=True)


@contextlib.contextmanager
def _running(script: Path, extra_path: Sequence[str], timeout: float) -> Iterator[_Started]:
    started = _Started(script, extra_path, timeout)
    try:
        yield started
    finally:
        started.kill()
        started.clean()


def run_script(script: Path, timeout: float, extra_path: Sequence[str] = (), sought: Fingerprint | None = None) -> Run:
    """Runs the script once in a fresh interpreter; `timeout` in seconds."""
    with _running(script, extra_path, timeout) as started:
        return started.wait(sought)


def shows(run: Run, sought: Fingerprint, match: str | None, any_stage: bool = False) -> bool:
    """Whether a run showed the sought failure."""
    if run.failure is None:
        return False
    seen = run.failure
    if any_stage:
        seen = replace(seen, fingerprint=replace(seen.fingerprint, stage=sought.stage))
    if match is not None:
        return matches(sought, seen, match)
    return same(sought, seen.fingerprint, renamed=True)


def verify(
    script: Path,
    sought: Fingerprint,
    *,
    timeout: float,
    extra_path: Sequence[str] = (),
    match: str | None = None,
    any_stage: bool = False,
    runs: int = RUNS,
    at_once: int = 2,
) -> Verification:
    """Runs the script `runs` times, up to `at_once` side by side, and compares what it shows.

    `any_stage` is for a script that calls the backend itself: its traceback does not tell the stage.
    Interpreters are started only as long as every run so far has shown the failure.
    """
    began = time.monotonic()
    done: list[Run] = []
    with contextlib.ExitStack() as stack:
        waiting: list[_Started] = []
        while len(done) < runs:
            while len(waiting) < at_once and len(done) + len(waiting) < runs:
                waiting.append(stack.enter_context(_running(script, extra_path, timeout)))
            done.append(waiting.pop(0).wait(sought))
            if not shows(done[-1], sought, match, any_stage):
                break
    agreeing = sum(shows(run, sought, match, any_stage) for run in done)
    return Verification(tuple(done), agreeing, time.monotonic() - began)
