"""The source of the user's running script, or of the cells of an interactive session."""

from __future__ import annotations

import linecache
import os
import re
import sys
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FunctionType
from typing import Any


def source_here() -> tuple[str, bool]:
    """Return the source of the running script, or of a session's cells so far; and whether a file was read.

    The source is empty if neither is known.
    """
    main = sys.modules["__main__"]
    file = getattr(main, "__file__", None)
    if file is not None and Path(file).suffix == ".py" and Path(file).exists():
        with tokenize.open(file) as source:
            return source.read(), True
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    if shell is None:
        return "\n\n".join(_entered(vars(main).values())), False
    cells = [shell.transform_cell(cell) for cell in shell.user_ns.get("In", ()) if cell.strip()]
    return "\n\n".join(cells), False


def _entered(values: Iterable[Any]) -> Iterator[str]:
    """Yield the sources that were entered into a session without a file, in their order.

    `linecache` has them, under names that differ by a number: `<python-input-3>`. `values` are the session's globals:
    the functions among them tell what these names are like.
    """
    alike = {_without_numbers(function.__code__.co_filename) for function in _functions(values)}
    for name, entry in list(linecache.cache.items()):
        if len(entry) == 4 and _without_numbers(name) in alike and not os.path.exists(name):
            yield "".join(entry[2])


def _functions(values: Iterable[Any]) -> Iterator[FunctionType]:
    for value in values:
        members = vars(value).values() if isinstance(value, type) else (value,)
        yield from (each for each in members if isinstance(each, FunctionType) and each.__module__ == "__main__")


def _without_numbers(name: str) -> str:
    return re.sub(r"[0-9a-f]*[0-9][0-9a-f]*", "#", name)
