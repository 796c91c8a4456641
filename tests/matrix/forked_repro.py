"""A repro's script run in a forked child that has torch already, in a tenth of the time of a fresh interpreter.

What is seen of it is noted by the very file that is put into a fresh interpreter, and read as its end is.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import runpy
import shutil
import signal
import sys
import time
from pathlib import Path

from minifier.failure import Fingerprint, Kind
from minifier.failure import observed as observed_module
from minifier.verify import Run
from minifier.verify import interpreter as interpreter_module
from minifier.verify.reading import End, failure_shown


def run_forked(script: Path, sought: Fingerprint, match_log: str | None = None, timeout: float = 60) -> Run:
    """Runs the script in a child of this process, with its folder as the working directory; `timeout` in seconds."""
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
        _as_an_interpreter(script, observer, output)
    status = _wait(pid, started + timeout)
    seconds = time.monotonic() - started
    text = output.read_text(errors="replace")
    return Run(status, failure_shown(End(status, text, seconds, observer), sought, match_log), text, seconds)


def _as_an_interpreter(script: Path, observer: Path, output: Path) -> None:
    """Ends the process as `python script` would."""
    status = 70
    try:
        os.setsid()
        faulthandler.disable()
        file = os.open(output, os.O_WRONLY | os.O_CREAT)
        os.dup2(file, 1)
        os.dup2(file, 2)
        sys.stdout, sys.stderr = (open(fd, "w", buffering=1, closefd=False) for fd in (1, 2))  # noqa: SIM115
        os.chdir(script.parent)
        runpy.run_path(str(observer / "sitecustomize.py"))
        sys.path[0] = str(script.parent)
        try:
            runpy.run_path(script.name, run_name="__main__")
            status = 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
        except BaseException as error:
            frames = error.__traceback__  # without this function's and runpy's, which no interpreter would have
            while frames is not None and frames.tb_frame.f_code.co_filename != script.name:
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
