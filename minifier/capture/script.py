"""Runs a script or module in this process as `python` would: name, arguments, folder, exit behaviour."""

from __future__ import annotations

import atexit
import builtins
import importlib.machinery
import os
import runpy
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, TracebackType


@dataclass(frozen=True, slots=True)
class Program:
    """What the user asked to run: a script's path or a module's name, and its arguments."""

    target: str
    arguments: tuple[str, ...] = ()
    is_module: bool = False

    @property
    def name(self) -> str:
        """For people and folder names."""
        return self.target if self.is_module else Path(self.target).stem


def _run_script(path: str) -> None:
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
    """The traceback from the script's first frame on."""
    here = Path(__file__).parent
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if Path(file).parent != here and "runpy" not in file:
            return trace
        trace = trace.tb_next
    return None


def _exit_code(code: object) -> int:
    """The exit status for `sys.exit(code)`, printing what Python prints."""
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    print(code, file=sys.stderr)
    return 1


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
        trace = _without_tool(error.__traceback__)
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        line = traceback.format_exception_only(type(error), error)[0].strip().split("\n")[0]
        text = "".join(traceback.format_exception(type(error), error, trace))
        status = 130 if isinstance(error, KeyboardInterrupt) else 1
    ended(status, line, text)
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except (OSError, ValueError):
            status = status or 120
    return status
