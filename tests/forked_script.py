"""Scripts that run in a fork of a process that has torch already, in a tenth of the time of a fresh interpreter."""

from __future__ import annotations

import builtins
import contextlib
import faulthandler
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import BinaryIO, NoReturn

from minifier.data.failure import Fingerprint
from minifier.process.child import Child, supervise
from minifier.process.descendants import mark, spare
from minifier.process.interpreters import Interpreters
from minifier.repro.verify import Conditions, ScriptRun, run_script

TESTS = Path(__file__).parent.resolve()
# The import path of an interpreter without PYTHONPATH, behind the script's own folder.
PATH = [entry for entry in sys.path if TESTS not in (Path(entry).resolve(), *Path(entry).resolve().parents)]


def run_forked(
    script: Path, sought: Fingerprint, match_log: str | None = None, timeout: float = 60, path: Sequence[str] = ()
) -> ScriptRun:
    """`minifier.repro.verify.run_script` with a fork as the interpreter."""
    interpreters = forked_interpreters()
    return run_script(script, Conditions(sought, timeout, path, match_log=match_log, interpreters=interpreters))


def python_forked(script: Path, folder: Path, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    """What `python script` in this folder would give."""
    out, err = folder / "stdout", folder / "stderr"
    with out.open("wb") as output, err.open("wb") as errors:
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        child = fork_interpreter(str(script), folder, environment, output, errors=errors)
        child.limit(timeout)
        try:
            supervise([child])
        finally:
            child.kill()
    assert not child.timed_out, f"{script} did not end in {timeout} s:\n{err.read_text(errors='replace')}"
    return subprocess.CompletedProcess([str(script)], child.code, out.read_text(), err.read_text())


def forked_interpreters() -> Interpreters:
    """Interpreters of a verification that are forks of this process."""
    return Interpreters(fork_interpreter, most_ahead=0)


def fork_interpreter(
    script: str,
    work: Path,
    environment: dict[str, str],
    output: BinaryIO,
    first: Callable[[], None] | None = None,
    files: Sequence[int] = (),
    errors: BinaryIO | None = None,
) -> Child:
    """Do as `minifier.process.interpreters.launch_fresh`, in a fork of this process."""
    assert not files, "no interpreter is started ahead where they are forks"
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        mark()
        _become_interpreter(script, work, environment, (output, errors or output), first)
    spare(pid)
    return Child(pid)


def _become_interpreter(
    script: str,
    folder: Path,
    environment: dict[str, str],
    streams: tuple[BinaryIO, BinaryIO],
    first: Callable[[], None] | None,
) -> NoReturn:
    """End this forked process as `python SCRIPT` in `folder` would end. `first` runs ahead of everything, as
    subprocess's preexec_fn; a sitecustomize.py on PYTHONPATH is run, as Python does."""
    status = 70
    try:
        os.setsid()
        faulthandler.disable()
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if first is not None:
            first()
        become_program(folder, environment, (os.open(os.devnull, os.O_RDONLY), *(file.fileno() for file in streams)))
        sys.argv = [script]
        for entry in sys.path:
            if (Path(entry) / "sitecustomize.py").is_file():
                runpy.run_path(str(Path(entry) / "sitecustomize.py"))
                break
        path = str(Path(folder, script))
        sys.path.insert(0, str(Path(path).parent))
        status = run_main(Path(path).read_text(encoding="utf-8"), path)
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        os._exit(status)


def become_program(folder: str | Path, environment: dict[str, str], files: Sequence[int]) -> None:
    """Give this process the folder, the variables, the import path and the three standard files of a new program."""
    for number, file in enumerate(files):
        os.dup2(file, number)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - open as long as the process
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[:] = [*filter(None, environment.get("PYTHONPATH", "").split(os.pathsep)), *PATH]


def run_main(source: str, path: str) -> int:
    """Run the source as `__main__`; return the exit status that Python would give. `path` is the script's, or
    `<string>`."""
    main = ModuleType("__main__")
    main.__file__ = path
    main.__dict__["__builtins__"] = builtins
    sys.modules["__main__"] = main
    try:
        exec(compile(source, path, "exec", dont_inherit=True), main.__dict__)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except BaseException as error:
        frames = error.__traceback__  # without this function's, which no interpreter would have
        while frames is not None and frames.tb_frame.f_code.co_filename != path:
            frames = frames.tb_next
        error = error.with_traceback(frames)
        sys.audit("sys.excepthook", sys.excepthook, type(error), error, frames)
        sys.excepthook(type(error), error, frames)
        return 1
    return 0
