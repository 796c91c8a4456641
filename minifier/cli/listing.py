"""`minify backends` and `minify passes`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import EntryPoint
from typing import Any

from minifier.passes.table import TABLE
from minifier.source import passes as of_scripts


def _print_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(*heads, box=box.SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    width = (
        None
        if sys.stdout.isatty()
        else max(120, sum(max(len(r[i]) for r in (heads, *rows)) + 3 for i in range(len(heads))))
    )
    Console(width=width, highlight=False, markup=False).print(table)


def list_passes() -> int:
    """Print the tables of passes."""
    _print_table(("pass over a graph", "takes away"), TABLE)
    _print_table(("pass over a script", "takes away"), of_scripts.TABLE)
    return 0


def loaded_entry_point(point: EntryPoint) -> tuple[Any, str]:
    """Import the backend of an entry point; return (backend, "") or (None, the error)."""
    try:
        return point.load(), ""
    except Exception as error:  # noqa: BLE001 - a broken distribution is listed with its error
        return None, f"{type(error).__name__}: {error}"


def list_backends() -> int:
    """Print every backend that torch.compile finds: name, tags, origin."""
    from minifier.workflow.machine import import_torch

    import_torch()
    from minifier.torch_private import backend_table

    rows = []
    for name, loaded, point in backend_table():
        function, problem = loaded, ""
        if loaded is None and point is not None:
            function, problem = loaded_entry_point(point)
        tags = ", ".join(getattr(function, "_tags", ()) or ())
        module = getattr(function, "__module__", None) or type(function).__module__
        if point is not None:
            dist = f"{point.dist.name} {point.dist.version}" if point.dist else "unknown distribution"
            origin = f"entry point {point.value} ({dist})"
        else:
            origin = "torch" if module.startswith("torch") else f"module {module}"
        rows.append((name, tags, origin + (f"; cannot be loaded: {problem}" if problem else "")))
    _print_table(("backend", "tags", "from"), rows)
    print("Backends that register when their module is imported are not listed before that.")
    return 0
