"""The vocabulary of the tests: a script that is minified, a function that runs in a child, a captured Case."""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import functools
import hashlib
import io
import json
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import traceback
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clock import AfterHangs, wait_until
from forked_script import forked_interpreters
from warm_command import WarmProcess, warm_command, warm_python

from minifier.data.case.run_folder import JOURNAL
from minifier.flow.cli.entry import command_line
from minifier.process.descendants import adopt_orphans
from minifier.process.progress import SILENT, PhaseClock, Ui

CASES = Path(__file__).parent / "cases"


def source_of(text: str) -> str:
    """Source written inside a test, without its indentation."""
    return textwrap.dedent(text).lstrip("\n")


def tree(folder: Path) -> dict[str, str]:
    """Every file below the folder with a digest of its content; what Python caches beside modules left out."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


@dataclass(frozen=True)
class Minified:
    """What a `minify` command left: its exit code (negative: a signal), what it printed, what it wrote."""

    code: int
    stdout: str
    stderr: str
    out: Path

    @property
    def result(self) -> dict[str, Any]:
        return json.loads((self.out / "result.json").read_text())

    @property
    def repro(self) -> str:
        return (self.out / "repro.py").read_text()

    @property
    def ops(self) -> tuple[int, int | None]:
        return self.result["ops_before"], self.result["ops_after"]

    @property
    def says(self) -> list[str]:
        """The lines of its own, without what the script printed."""
        return [line.removeprefix("minify: ") for line in self.stderr.splitlines() if line.startswith("minify: ")]


class Project:
    """A folder with the user's files, an output folder, and a temporary folder to look into afterwards."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder, self.out, self.temporary = root / "project", root / "out", root / "tmp"
        self.folder.mkdir()
        self.temporary.mkdir()

    def write(self, text: str, name: str = "failing.py") -> Path:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source_of(text))
        return path

    def environment(self, path: Sequence[str | Path] = (CASES,), **extra: str) -> dict[str, str]:
        # pytest prints another summary where one of the last two is set.
        unwanted = ("PYTHON", "TORCH", "PYTEST", "CI", "BUILD_NUMBER")
        kept = {k: v for k, v in os.environ.items() if not k.startswith(unwanted)}
        path_text = os.pathsep.join(map(str, path))
        # A run with inductor would ask for 20 s what is at fault; tests/report/test_explain.py has that.
        return {**kept, "TMPDIR": str(self.temporary), "PYTHONPATH": path_text, "MINIFY_EXPLAIN": "0", **extra}

    def start(self, *arguments: str | Path, command: str = "minifier", **options: Any) -> subprocess.Popen[str]:
        """The command, started in the project's folder in a session of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", command, *map(str, arguments)],
            cwd=self.folder,
            env=self.environment(**options),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def start_warm(self, *arguments: str | Path, **options: Any) -> WarmProcess:
        """The command, forked in the project's folder in a session of its own."""
        return warm_command().start(arguments, self.folder, self.environment(**options))

    def finish(self, process: subprocess.Popen[str] | WarmProcess, timeout: float) -> Minified:
        """Waits for the end; whatever is left of the session then is killed."""
        try:
            stdout, stderr = process.communicate(timeout=timeout)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(timeout=10)
        return Minified(process.returncode, stdout, stderr, self.out)

    def minify(self, *arguments: str | Path, timeout: float = 150, fresh: bool = False, **options: Any) -> Minified:
        """`minify ARGUMENTS...`; the user's files are looked at before and after, the temporary folder after.

        It is a fork of a process that has torch already, and so is each interpreter of the verification. With `fresh`,
        or with variables that Python or torch read when they start, it is `python -m minifier`.
        """
        before = tree(self.folder)
        fresh = fresh or any(name.startswith(("PYTHON", "TORCH", "OMP")) for name in options)
        start = self.start if fresh else self.start_warm
        done = self.finish(start(*arguments, **options), timeout)
        assert tree(self.folder) == before, "the user's files were changed"
        assert self.litter() == [], "temporary files were left"
        return done

    def python(self, *arguments: str | Path, timeout: float = 180, **options: Any) -> subprocess.CompletedProcess[str]:
        """What `python ARGUMENTS...` in the project's folder gives."""
        return fresh_python(*arguments, folder=self.folder, environment=self.environment(**options), timeout=timeout)

    def litter(self) -> list[str]:
        """What this tool left in the temporary folder."""
        return sorted(path.name for path in self.temporary.iterdir() if path.name.startswith("minify-"))

    def run(self, text: str, *arguments: str, given: Sequence[str] = (), verify: int = 1, **options: Any) -> Minified:
        """`minify run --out out --verify 1 GIVEN... failing.py ARGUMENTS...` for a script of this text: a fresh
        interpreter takes longer than most reductions."""
        self.write(text)
        return self.minify(
            "run", "--out", self.out, "--verify", str(verify), *given, "failing.py", *arguments, **options
        )


class Held:
    """Holds up a command at a backend that calls `oddlib.held.hold`, once a file of the results has a text so many
    times. `environment` is for the command."""

    def __init__(self, project: Project, text: str, times: int, file: str | Path = JOURNAL) -> None:
        self._file, self._text, self._times = project.out / file, text, times
        self._pipe = project.root / "released"
        if not self._pipe.exists():
            os.mkfifo(self._pipe)
        self.environment = {"ODDLIB_HELD": json.dumps([str(self._file), text, times, str(self._pipe)])}

    def wait(self, process: subprocess.Popen[str] | WarmProcess) -> None:
        """Wait until the command is held up."""
        wait_until(
            lambda: self._file.exists() and self._file.read_text().count(self._text) >= self._times,
            lambda: process.communicate(),
            process=process,
        )

    def release(self) -> None:
        """Let the command go on, now and later."""
        os.open(self._pipe, os.O_RDWR)  # open as long as this process: whoever opens it need not wait


class CommandLine(Project):
    """A project in which `minify` runs in the test process: for what it refuses before it starts anything."""

    def minify(self, *arguments: str | Path, **options: Any) -> Minified:
        assert not options, "the variables are those of the test process"
        before = tree(self.folder)
        handlers = {number: signal.getsignal(number) for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP)}
        out, err = io.StringIO(), io.StringIO()
        here = os.getcwd()
        os.chdir(self.folder)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = command_line(list(map(str, arguments)))
        finally:
            os.chdir(here)
            for number, handler in handlers.items():
                signal.signal(number, handler)
        assert tree(self.folder) == before, "the user's files were changed"
        return Minified(code, out.getvalue(), err.getvalue(), self.out)


def fresh_python(
    *arguments: str | Path, folder: Path, environment: dict[str, str], timeout: float
) -> subprocess.CompletedProcess[str]:
    """What `python ARGUMENTS...` in a folder gives, in an interpreter of its own."""
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=timeout, check=False
    )


def run_alone(
    repro: Path, folder: Path, path: Path = CASES, timeout: float = 100, fresh: bool = False
) -> subprocess.CompletedProcess[str]:
    """`python repro.py` in `folder`, with nothing on the path but the folder of the backend's package.

    It is a fork that has torch already, unless it is to be `fresh`.
    """
    folder.mkdir()
    (folder / "repro.py").write_text(repro.read_text())
    values = repro.with_name("inputs.safetensors")
    if values.exists():
        (folder / values.name).write_bytes(values.read_bytes())
    environment = {"PATH": os.defpath, "HOME": str(folder), "TMPDIR": str(folder), "PYTHONPATH": str(path)}
    python = fresh_python if fresh else warm_python
    return python("repro.py", folder=folder, environment=environment, timeout=timeout)


def in_child(work: Callable[[], Any], folder: Path, timeout: float = 60) -> Any:
    """What `work()` gives, run in a forked child; an exception of it fails the test, with its traceback."""
    from minifier.torch_side.torch_private.inductor import forget_threads  # here, once for all children

    answer = folder / f"answer-{uuid.uuid4().hex}"
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            forget_threads()
            atexit._clear()  # what pytest has registered is not for a child
            found: tuple[str, Any] = ("value", work())
        except BaseException:
            found = ("error", traceback.format_exc())
        try:
            answer.write_bytes(pickle.dumps(found))
        finally:
            os._exit(0)
    try:
        wait_until(lambda: os.waitpid(pid, os.WNOHANG) != (0, 0), "the child has ended", timeout)
    except AssertionError:
        os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise
    assert answer.exists(), "the child died"
    kind, value = pickle.loads(answer.read_bytes())
    assert kind == "value", value
    return value


class Lines(Ui):
    """Keeps what the user is told, as `lines`, and what a verbose run says as well, as `details`."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.details: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)

    def detail(self, text: str) -> None:
        self.details.append(text)


def minified_here(script: Path, folder: Path, within: float = 120, *, fresh: bool = False, **settings: Any) -> Any:
    """The outcome of `minifier.run` in a fork of the test process, `within` seconds, with the results in `out`.

    The interpreters of the verification are forks too, unless they are to be `fresh`.
    """
    from torch.utils import collect_env

    from minifier import run as run_script  # imported once, ahead of all forks
    from minifier.data.settings import Settings
    from minifier.process.interpreters import Interpreters

    def work() -> Any:
        faulthandler.disable()  # pytest's, which would have the stacks of every death
        os.environ["PYTHONPATH"] = str(CASES)
        os.chdir(folder)
        collect_env.get_pretty_env_info = lambda: ""  # it takes seconds
        interpreters = Interpreters(most_ahead=0) if fresh else forked_interpreters()
        return run_script(script, Settings(**settings), out=folder / "out", interpreters=interpreters)

    return in_child(work, folder, within)


def let_hangs_last(folder: Path) -> None:
    """In this process, let the hangs of a captured script in this folder last an hour at once."""
    from minifier.capturing import capture

    capture.RunningCalls = functools.partial(capture.RunningCalls, now=AfterHangs(folder / "hangs"))


class Bureau:
    """Captures and reduces scripts without the command line and without verification: a second, not ten."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.graphs = folder / "graphs"

    def capture(
        self,
        text: str,
        *arguments: str,
        timeout: float = 60,
        limit: float | None = None,
        ui: Any = SILENT,
        **terms: Any,
    ) -> Any:
        """What running a script of this text showed, on these terms, each backend call getting `limit` seconds; the
        Cases are in `graphs`."""
        from minifier.capturing.capture import capture
        from minifier.capturing.script import Program
        from minifier.capturing.script_limits import Terms

        assert "oddlib" not in sys.modules, "the script's backends must be registered by the script, not before"
        script = self.folder / "failing.py"
        script.write_text(source_of(text))

        def work() -> Any:
            faulthandler.disable()  # pytest's; a user's is respected
            sys.path[0] = str(CASES)
            let_hangs_last(self.folder)
            adopt_orphans()
            return capture(Program(str(script), arguments), self.graphs, Terms(limit, **terms), ui)

        return in_child(work, self.folder, timeout)

    def capture_again(
        self, captured: Any, index: int = 0, timeout: float = 60, limit: float | None = None, **terms: Any
    ) -> tuple[Any, Any, str]:
        """The failure as a second run of the script shows it, its Case, and what was said about it."""
        from minifier.capturing.capture import FoundFailures
        from minifier.capturing.script import Program
        from minifier.capturing.script_limits import Terms
        from minifier.data.case.store import load
        from minifier.data.settings import Settings
        from minifier.flow.attempt import Run
        from minifier.flow.keep_case import call_to_reduce

        def work() -> Any:
            faulthandler.disable()
            sys.path[0] = str(CASES)
            let_hangs_last(self.folder)
            program, ui = Program(str(self.folder / "failing.py")), Lines()
            found = FoundFailures(program, captured, self.folder, Terms(limit, **terms))
            call = call_to_reduce(found, captured.failing[index], Run(Settings(), PhaseClock(ui)))
            return call.failing, call.failing.folder, "\n".join(ui.lines)

        seen, folder, said = in_child(work, self.folder, timeout)
        return seen, load(folder), said

    def case(self, number: int = 1) -> Any:
        """The Case of the script's n-th graph."""
        from minifier.data.case.store import load

        return load(self.graphs / str(number))

    def reduce(self, number: int = 1, timeout: float = 60, **settings: Any) -> tuple[Any, Any]:
        """(summary, minimal Case) of the n-th graph. Raises what the reduction raises."""
        from minifier.data.case.run_folder import RunFolder
        from minifier.data.settings import Settings
        from minifier.errors import MinifyError
        from minifier.flow.attempt import Attempt, Run
        from minifier.flow.reduce_in_child import reduce_in_child

        def work() -> Any:
            faulthandler.disable()  # pytest's, which would have the stacks of dying probes
            case, out = self.case(number), self.folder / f"out-{number}"
            try:
                return reduce_in_child(Attempt(Run(Settings(**settings)), RunFolder(out), case), case, out)
            except MinifyError as error:
                return error

        reduced = in_child(work, self.folder, timeout)
        if isinstance(reduced, MinifyError):
            raise reduced
        return reduced.summary, reduced.minimal
