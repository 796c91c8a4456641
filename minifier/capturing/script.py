"""Runs a script or module in this process as `python` would: name, arguments, folder, exit behaviour."""

from __future__ import annotations

import atexit
import builtins
import contextlib
import gc
import importlib.machinery
import io
import itertools
import os
import runpy
import sys
import threading
import tokenize
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, TracebackType

from minifier.capturing.standard_input import StandardInput
from minifier.process.memory import spare_memory
from minifier.process.stacks import calls_user_code

AOT_INDUCTOR = "aot_inductor"  # the backend that is said to compile exported programs
_TOOL = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")


under_run = False
"""Whether `minify run` observes this process: what is called inside of it then leaves the failure to that."""


@dataclass(frozen=True, slots=True)
class Program:
    """What the user asked to run: a script's path or a module's name, its arguments, and what it reads from. `made_of`
    is the file that the user named, if the script was made of that."""

    target: str
    arguments: tuple[str, ...] = ()
    is_module: bool = False
    given: StandardInput | None = None
    made_of: str = ""

    @property
    def said(self) -> str:
        """What the user named."""
        return self.made_of or self.target

    @property
    def name(self) -> str:
        """For people and folder names."""
        return self.target if self.is_module else Path(self.target).stem

    def source(self) -> str:
        """The text of the script; empty if it cannot be read."""
        path = _file_of(self.target) if self.is_module else self.target
        with contextlib.suppress(OSError, UnicodeDecodeError, SyntaxError), tokenize.open(path) as file:
            return file.read()
        return ""


def _file_of(module: str) -> str:
    """The file that `-m module` runs, found without importing anything; empty if there is none."""
    places: Sequence[str] | None = [os.getcwd(), *sys.path]
    parts = [*module.split("."), "__main__"]
    for end in range(1, len(parts) + 1):
        found = importlib.machinery.PathFinder.find_spec(".".join(parts[:end]), places)
        if found is None:
            break
        places = found.submodule_search_locations
        if places is None:
            return found.origin or ""
    return ""


def _run_script(target: str) -> None:
    path = os.path.abspath(target)  # as Python does, so that a script may change directory
    main = ModuleType("__main__")
    main.__dict__.update(
        __file__=path,
        __builtins__=builtins,
        __cached__=None,
        __loader__=importlib.machinery.SourceFileLoader("__main__", path),
    )
    sys.modules["__main__"] = main
    code = compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)
    exec(code, main.__dict__)


def _without_tool(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without the frames of this tool, nor what runs a module."""
    kept: list[TracebackType] = []
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith(_TOOL) and (kept or "runpy" not in file):
            kept.append(trace)
        trace = trace.tb_next
    for step, following in itertools.zip_longest(kept, kept[1:]):
        step.tb_next = following
    return kept[0] if kept else None


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The exception and those behind it."""
    seen: list[BaseException] = []
    waiting = [error]
    while waiting:
        found = waiting.pop()
        if found is not None and not any(found is each for each in seen):
            seen.append(found)
            waiting += [found.__cause__, found.__context__]
    yield from seen


def _exit_code(code: object) -> int:
    """The exit status for `sys.exit(code)`, printing what Python prints."""
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1


def _show(error: BaseException, trace: TracebackType | None) -> int:
    """Hands the exception to the script's excepthook; the exit status is 1, or what the hook exits with."""
    try:
        sys.excepthook(type(error), error.with_traceback(trace), trace)
    except SystemExit as exit_:
        return _exit_code(exit_.code)
    except BaseException as second:  # noqa: BLE001 - as Python does when a hook fails
        print("Error in sys.excepthook:", file=sys.stderr)
        traceback.print_exception(second)
        print("\nOriginal exception was:", file=sys.stderr)
        traceback.print_exception(error)
    return 130 if isinstance(error, KeyboardInterrupt) else 1


def _flush_files() -> None:
    """Writes out what the script left in files that it did not close: a process that ends does so."""
    main = sys.modules.get("__main__")
    if main is not None:
        main.__dict__.clear()
    for found in gc.get_objects():
        if type(found) in (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom):
            with contextlib.suppress(OSError, ValueError):
                found.flush()


@calls_user_code
def run_program(program: Program, ended: Callable[[int, str, str], None]) -> int:
    """Runs the program to its end, threads and exit handlers included; returns the exit status.

    `ended(status, error, traceback)` is called when the program's own code is done, `error` being a line.
    An exception of the script is printed as Python prints it.
    """
    arguments: Sequence[str] = program.arguments
    sys.argv = [program.target, *arguments]
    status, line, text = 0, "", ""
    try:
        if program.is_module:
            sys.path[0] = os.getcwd()
            runpy.run_module(program.target, run_name="__main__", alter_sys=True)
        else:
            sys.path[0] = str(Path(program.target).resolve().parent)
            _run_script(program.target)
    except SystemExit as error:
        status = _exit_code(error.code)
    except BaseException as error:  # noqa: BLE001 - printed as Python prints it
        with spare_memory():  # the frames that took all of it are alive
            for each in _chain(error):
                each.__traceback__ = _without_tool(each.__traceback__)
            trace = error.__traceback__
            line = traceback.format_exception_only(type(error), error)[0].strip().split("\n")[0]
            text = "".join(traceback.format_exception(type(error), error, trace))
            status = _show(error, trace)
            del trace
    ended(status, line, text)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    with spare_memory():
        _flush_files()
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except (OSError, ValueError):
            status = status or 120
    return status
