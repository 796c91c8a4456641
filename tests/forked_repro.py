"""A script run in a forked child that has torch already, in a tenth of the time of a fresh interpreter.

What is seen of a repro is noted by the very file that is put into a fresh interpreter, and read as its end is.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import runpy
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from minifier.failure import Fingerprint, Kind
from minifier.failure import observed as observed_module
from minifier.verify import Run
from minifier.verify import interpreter as interpreter_module
from minifier.verify.reading import End, failure_shown


def run_forked(
    script: Path,
    sought: Fingerprint,
    match_log: str | None = None,
    timeout: float = 60,
    path: Sequence[str] = (),
) -> Run:
    """Runs a repro in a child of this process, with its folder as the working directory, and these folders on the
    import path; `timeout` in seconds."""
    observer = script.parent / "observer"
    observer.mkdir()
    shutil.copyfile(Path(interpreter_module.__file__).with_name("_sitecustomize.py"), observer / "sitecustomize.py")
    shutil.copyfile(observed_module.__file__, observer / "observed.py")
    if sought.kind is Kind.SILENT_FALLBACK:
        (observer / "watch-logs").touch()
    output = script.parent / "output"
    started = time.monotonic()
    pid = os.fork()
    if pid == 0:
        _as_an_interpreter(script, script.parent, output, output, path, observer)
    status = _wait(pid, started + timeout)
    seconds = time.monotonic() - started
    text = output.read_text(errors="replace")
    return Run(status, failure_shown(End(status, text, seconds, observer), sought, match_log), text, seconds)


def python_forked(script: Path, folder: Path, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """What `python script` in this folder would give."""
    out, err = folder / "stdout", folder / "stderr"
    pid = os.fork()
    if pid == 0:
        os.environ["OMP_NUM_THREADS"] = "1"
        _as_an_interpreter(script, folder, out, err)
    status = _wait(pid, time.monotonic() + timeout)
    assert status is not None, f"{script} did not end in {timeout} s:\n{err.read_text(errors='replace')}"
    return subprocess.CompletedProcess([str(script)], status, out.read_text(), err.read_text())


def _as_an_interpreter(
    script: Path, folder: Path, out: Path, err: Path, path: Sequence[str] = (), observer: Path | None = None
) -> None:
    """Ends the process as `python script` would."""
    status = 70
    try:
        os.setsid()
        faulthandler.disable()
        for place, number in ((out, 1), (err, 2)):
            os.dup2(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
        sys.stdout, sys.stderr = (open(fd, "w", buffering=1, closefd=False) for fd in (1, 2))  # noqa: SIM115
        os.chdir(folder)
        if observer is not None:
            runpy.run_path(str(observer / "sitecustomize.py"))
        sys.path[:1] = [str(script.parent), *path]
        name = script.name if script.parent == folder else str(script)
        try:
            runpy.run_path(name, run_name="__main__")
            status = 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
        except BaseException as error:
            frames = error.__traceback__  # without this function's and runpy's, which no interpreter would have
            while frames is not None and frames.tb_frame.f_code.co_filename != name:
                frames = frames.tb_next
            error = error.with_traceback(frames)
            sys.audit("sys.excepthook", sys.excepthook, type(error), error, frames)
            sys.excepthook(type(error), error, frames)
            status = 1
    finally:
        os._exit(status)


def _wait(pid: int, deadline: float) -> int | None:
    """The exit status, negative for a signal; None where the child had to be killed."""
    code = None
    while time.monotonic() < deadline:
        ended, code = os.waitpid(pid, os.WNOHANG)
        if ended:
            break
        time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    if ended:
        return os.waitstatus_to_exitcode(code)
    os.waitpid(pid, 0)
    return None
