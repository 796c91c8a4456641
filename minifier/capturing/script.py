"""Run a script or module in this process as `python` would, each time with the same standard input."""

from __future__ import annotations

import atexit
import builtins
import contextlib
import functools
import gc
import importlib.machinery
import importlib.util
import io
import itertools
import linecache
import os
import runpy
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from minifier.data.failure.observed import chain, describe, status_of_exit
from minifier.process.descriptors import calls_user_code
from minifier.process.interpreters import replace_programs_folder
from minifier.process.interrupts import deaf
from minifier.process.machine import lift_limits, spare_memory

AOT_INDUCTOR = "aot_inductor"  # the backend name for exported programs that AOTInductor compiles
_TOOL = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")


under_run = False
"""Whether `minify run` observes this process: minify's functions that the script calls then leave failures to it."""


@dataclass(frozen=True, slots=True)
class Program:
    """The script's path or the module's name, its arguments, and its standard input (`given`).

    made_of: the file that the user named, if the script was generated from that file.
    backend: what compiles in place of the script's own backends: a registered name, or MODULE:NAME; "": they do.
    modules: what is imported before that.
    """

    target: str
    arguments: tuple[str, ...] = ()
    is_module: bool = False
    given: StandardInput | None = None
    made_of: str = ""
    backend: str = ""
    modules: tuple[str, ...] = ()

    @property
    def said(self) -> str:
        """The file or module that the user named."""
        return self.made_of or self.target

    @property
    def is_redirected(self) -> bool:
        """Whether another backend compiles than the script says."""
        return bool(self.backend) and not self.made_of

    @property
    def name(self) -> str:
        """The name for messages and folder names."""
        return self.target if self.is_module else Path(self.target).stem

    @property
    def file(self) -> str:
        """The path of the script, or of the module's file; empty if there is none."""
        return file_of(self.target) if self.is_module else self.target

    def source(self) -> str:
        """Return the text of the script; empty if unreadable."""
        with contextlib.suppress(OSError, UnicodeDecodeError, SyntaxError):
            return importlib.util.decode_source(content(self.file))
        return ""


def content(path: str) -> bytes:
    """Return a script's content. A pipe, which /dev/stdin may be, can be read once: its content is kept."""
    return Path(path).read_bytes() if is_file(path) else _content_of_pipe(os.path.abspath(path))


def is_file(path: str) -> bool:
    """Whether the script can be read again, in another process too."""
    return os.path.isfile(path)


@functools.cache
def _content_of_pipe(path: str) -> bytes:
    data = Path(path).read_bytes()
    with contextlib.suppress(SyntaxError, UnicodeDecodeError):  # for `inspect`, which would read the pipe again
        lines = importlib.util.decode_source(data).splitlines(keepends=True)
        linecache.cache[path] = len(data), None, lines, path
    return data


def find_module(name: str, folders: Sequence[str]) -> importlib.machinery.ModuleSpec | None:
    """Find a top-level module as `import` would, editable installs too, with `folders` ahead of the import path.

    Nothing is imported. None if there is no such module.
    """
    path = list(sys.path)
    sys.path[:0] = folders
    try:
        return importlib.util.find_spec(name)
    except ValueError:  # imported, and without a specification
        return None
    finally:
        sys.path[:] = path


def file_of(module: str, of_package: str = "__main__") -> str:
    """Return the module's file, of a package that of its module `of_package`, without an import; "" if there is none.

    By default that is the file which `-m module` runs."""
    folders: Sequence[str] | None = None
    names = [*module.split("."), of_package]
    for end in range(1, len(names) + 1):
        if folders is None:
            spec = find_module(names[0], [os.getcwd()])
        else:
            spec = importlib.machinery.PathFinder.find_spec(".".join(names[:end]), folders)
        if spec is None:
            break
        folders = spec.submodule_search_locations
        if folders is None:
            return spec.origin or ""
    return ""


def _run_script(target: str) -> None:
    path = os.path.abspath(target)  # as in Python: `__file__` stays valid when the script changes directory
    main = ModuleType("__main__")
    main.__dict__.update(
        __file__=path,
        __builtins__=builtins,
        __cached__=None,
        __loader__=importlib.machinery.SourceFileLoader("__main__", path),
    )
    sys.modules["__main__"] = main
    code = compile(content(path), path, "exec", dont_inherit=True)
    exec(code, main.__dict__)


def take_the_place_of(program: Program) -> None:
    """Make this process look like the program's own to imported modules: set `sys.argv` and an empty `__main__`."""
    sys.argv = [program.target, *program.arguments]
    main = ModuleType("__main__")
    main.__dict__.update(__file__=program.target, __builtins__=builtins)
    sys.modules["__main__"] = main


def _without_tool(trace: TracebackType | None) -> TracebackType | None:
    """Remove minify's frames, and runpy's leading frames, from the traceback."""
    steps: list[TracebackType] = []
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith(_TOOL) and (steps or "runpy" not in file):
            steps.append(trace)
        trace = trace.tb_next
    for step, following in itertools.zip_longest(steps, steps[1:]):
        step.tb_next = following
    return steps[0] if steps else None


def _exit_code(code: object) -> int:
    """Return the exit status for `sys.exit(code)`; print the code if Python would."""
    if not isinstance(code, int | None):
        print(code, file=sys.stderr)
    return status_of_exit(code)


def _show(error: BaseException, trace: TracebackType | None) -> int:
    """Call the script's excepthook; return the exit status: 130 for Ctrl-C, else 1, or as the hook itself exits."""
    try:
        sys.excepthook(type(error), error.with_traceback(trace), trace)
    except SystemExit as exit_:
        return _exit_code(exit_.code)
    except BaseException as hook_error:  # noqa: BLE001 - as Python does when a hook fails
        print("Error in sys.excepthook:", file=sys.stderr)
        traceback.print_exception(hook_error)
        print("\nOriginal exception was:", file=sys.stderr)
        traceback.print_exception(error)
    return 130 if isinstance(error, KeyboardInterrupt) else 1


@dataclass(frozen=True, slots=True)
class ScriptEnd:
    """How a program's own code ended: its exit status, and its exception as a line, a traceback and a description."""

    status: int = 0
    error: str = ""
    traceback: str = ""
    links: tuple[dict[str, Any], ...] = ()


@calls_user_code
def run_program(
    program: Program, ended: Callable[[ScriptEnd], None], before: Callable[[], object] | None = None
) -> int:
    """Run the program to its end, with its threads and exit handlers; return the exit status.

    `before` is called ahead of the program's own code, with its import path. `ended` is called when that is done, and
    while its exception holds the variables of its functions.
    """

    def told(end: ScriptEnd) -> None:
        with deaf():  # Ctrl-C may come twice, directly and through the process that waits for this one
            ended(end)

    sys.argv = [program.target, *program.arguments]
    status = 0
    try:
        if not os.environ.get("PYTHONSAFEPATH"):
            folder = os.getcwd() if program.is_module else str(Path(program.target).resolve().parent)
            replace_programs_folder([folder])
        if before is not None:
            before()
        lift_limits()
        if program.is_module:
            runpy.run_module(program.target, run_name="__main__", alter_sys=True)
        else:
            _run_script(program.target)
    except SystemExit as error:
        status = _exit_code(error.code)
        told(ScriptEnd(status))
    except BaseException as error:  # noqa: BLE001 - printed as Python prints it
        with spare_memory():  # after a MemoryError, the frames still hold all memory
            with deaf():
                for linked in chain(error):
                    linked.__traceback__ = _without_tool(linked.__traceback__)
                trace = error.__traceback__
                line = traceback.format_exception_only(type(error), error)[0].strip().split("\n")[0]
                text = "".join(traceback.format_exception(type(error), error, trace))
                links = describe(error)
            status = _show(error, trace)
            del trace
            told(ScriptEnd(status, line, text, tuple(links)))
    else:
        told(ScriptEnd())
    with contextlib.suppress(KeyboardInterrupt):  # Python ends all the same
        threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    main = sys.modules.get("__main__")
    with spare_memory(), contextlib.suppress(KeyboardInterrupt):  # in a finalizer
        if main is not None:
            main.__dict__.clear()
    with spare_memory(), deaf():
        for item in gc.get_objects():  # the files that the script left open
            if type(item) in (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom):
                with contextlib.suppress(OSError, ValueError):
                    item.flush()
        for stream in (sys.stdout, sys.stderr):
            try:
                if stream is not None and not stream.closed:
                    stream.flush()
            except (OSError, ValueError):
                status = status or 120
    return status


_MAX_STDIN_BYTES = 2**30  # that are copied


class StandardInput:
    """This process's standard input, for several runs. A terminal stays unchanged, a file is rewound for each run.

    From a pipe the first run copies its reads of `sys.stdin` to the file `copy`, and later runs read that file. Nothing
    is read from the pipe before the script reads.
    """

    def __init__(self, copy: Path) -> None:
        self._copy = copy.absolute()
        self._begin: int | None = None
        self._is_pipe = False
        if sys.stdin is None or os.isatty(0):
            return
        try:
            self._begin = os.lseek(0, 0, os.SEEK_CUR)
        except OSError:
            self._is_pipe = True

    def set_up(self) -> None:
        """Prepare standard input in the process that is about to run the script."""
        if self._begin is not None:
            os.lseek(0, self._begin, os.SEEK_SET)
        elif self._is_pipe and self._copy.exists():
            file = os.open(self._copy, os.O_RDONLY)
            os.dup2(file, 0)
            os.close(file)
        elif self._is_pipe and sys.stdin is not None:
            self._copy.touch(mode=0o600)
            original = sys.stdin
            text = io.TextIOWrapper(io.BufferedReader(_Copying(self._copy)), original.encoding, original.errors)
            text.mode = getattr(original, "mode", "r")  # type: ignore[misc]
            sys.stdin = sys.__stdin__ = text  # type: ignore[misc]


class _Copying(io.FileIO):
    """Standard input that appends the bytes read to a copy, up to `_MAX_STDIN_BYTES`."""

    def __init__(self, copy: Path) -> None:
        super().__init__(0, "rb", closefd=False)
        self.name = "<stdin>"
        self._copy, self._remaining_bytes = copy, _MAX_STDIN_BYTES

    def readinto(self, buffer: Any, /) -> int:
        count: int = super().readinto(buffer)
        if count:
            self._keep(bytes(memoryview(buffer).cast("B")[:count]))
        return count

    def readall(self) -> bytes:
        data = super().readall()
        self._keep(data)
        return data

    def _keep(self, data: bytes) -> None:
        self._remaining_bytes -= len(data)
        if self._remaining_bytes >= 0:
            # A failing copy must not stop the script, which may also close all descriptors.
            with contextlib.suppress(OSError), self._copy.open("ab") as file:
                file.write(data)
