"""The script's own definitions: run them again in a new module, and evaluate expressions there."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterable
from types import FrameType, ModuleType
from typing import Any

from minifier.case.literals import SCRIPT

FILE = "definitions.py"


def line_of_script() -> int:
    """Return the current line of the script's module, or 0 if this thread does not run the module."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") == SCRIPT:
            return frame.f_lineno
        frame = frame.f_back
    return 0


def define(source: str, file: str = FILE) -> dict[str, Any]:
    """Run the source as a new module `__main__`, with this `__file__`, and return its globals.

    Tracebacks name the file `FILE`. Raises whatever the source raises.
    """
    module = ModuleType(SCRIPT)
    module.__dict__.update(__file__=file, __builtins__=__builtins__)
    sys.modules[SCRIPT] = module
    for name in {FILE, file}:  # for tracebacks, and for libraries that read the source of a function or class
        linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    exec(compile(source, FILE, "exec", dont_inherit=True), module.__dict__)
    return module.__dict__


def evaluated(expression: str, imports: Iterable[str] = ()) -> Any:
    """Evaluate the expression with the script's globals and these imports. Raises whatever these raise."""
    names = dict(vars(sys.modules[SCRIPT]))
    for line in imports:
        exec(line, names)
    return eval(expression, names)
