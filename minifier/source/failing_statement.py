"""Find the failing lines of a script in the traceback."""

from __future__ import annotations

import ast
import re

from minifier.failure import Failure
from minifier.fx.script_definitions import FILE


def lines_of(failure: Failure) -> list[int]:
    """Return the script's line numbers in the traceback, innermost last."""
    return [int(line) for line in re.findall(rf'File "{FILE}", line (\d+)', failure.traceback)]


def up_to_failing_statement(source: str, failure: Failure) -> str:
    """Return the source up to the failing statement of the module."""
    in_module = re.findall(rf'File "{FILE}", line (\d+),? in <module>', failure.traceback)
    if not in_module:
        return source
    last = int(in_module[-1])
    ends = [node.end_lineno for node in ast.parse(source).body if node.lineno <= last]
    return "".join(source.splitlines(keepends=True)[: ends[-1]])
