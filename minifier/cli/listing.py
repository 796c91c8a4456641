"""`minify backends` and `minify passes`, and how a command prints a table."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from minifier.passes.table import TABLE
from minifier.source import passes as of_scripts
from minifier.workflow.known_backends import known_backends


def print_table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
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
    print_table(("pass over a graph", "takes away"), TABLE)
    print_table(("pass over a script", "takes away"), of_scripts.TABLE)
    return 0


def list_backends() -> int:
    """Print every backend that torch.compile finds: name, tags, origin."""
    print_table(("backend", "tags", "from"), known_backends())
    print("Backends that register when their module is imported are not listed before that.")
    return 0
