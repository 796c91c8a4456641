"""Write the tables of docs/ that repeat the code: what stands between `<!-- generated: NAME -->` and `<!-- end -->`.

`make docs` runs it ahead of the site.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

import click

from minifier.flow.cli.commands import cli
from minifier.flow.starts import STARTS
from minifier.reduction.passes.table import TABLE as GRAPH_PASSES
from minifier.repro.source.passes import TABLE as SCRIPT_PASSES

DOCS = Path(__file__).resolve().parent.parent / "docs"
MARKED = re.compile(r"(<!-- generated: (?P<name>[^\n]+) -->\n).*?(<!-- end -->)", re.DOTALL)


def table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return the rows as a table. A bar would end a cell, so a slash takes its place."""
    lines = [" | ".join(cell.replace("|", "/") for cell in row) for row in (heads, ("---",) * len(heads), *rows)]
    return "\n".join(f"| {line} |" for line in lines)


def options(*names: str) -> str:
    """Return the options of these commands; an option that only some of them have names them."""
    holders: dict[str, list[str]] = {}
    helps: dict[str, str] = {}
    for name in names:
        for option in cli.commands[name].params:
            if isinstance(option, click.Option) and not option.hidden:
                metavar = "" if option.is_flag else f" {option.make_metavar(click.Context(cli.commands[name]))}"
                spelled = ", ".join(f"`{text}{metavar}`" for text in (*option.opts, *option.secondary_opts))
                holders.setdefault(spelled, []).append(name)
                default = f" Default: {option.default}." if option.show_default else ""
                helps[spelled] = f"{option.help}{default}"
    some = {spelled: found for spelled, found in holders.items() if len(found) < len(names)}
    told = {spelled: f"{', '.join(f'`{name}`' for name in found)}: " for spelled, found in some.items()}
    return table(("option", "what it does"), ((spelled, told.get(spelled, "") + helps[spelled]) for spelled in holders))


def passes(rows: Iterable[tuple[str, str]]) -> str:
    return table(("pass", "takes away"), ((f"`{name}`", text) for name, text in rows))


TABLES: dict[str, Callable[[], str]] = {
    "options of run and reduce": lambda: options("run", "reduce"),
    "options of check": lambda: options("check"),
    "options of report": lambda: options("report"),
    "starts": lambda: table(("start", "when"), ((start.name, start.when) for start in STARTS)),
    "passes over a graph": lambda: passes(GRAPH_PASSES),
    "passes over a script": lambda: passes(SCRIPT_PASSES),
}


def main() -> None:
    """Write each page whose tables have changed."""
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text(encoding="utf-8")
        written = MARKED.sub(lambda found: f"{found[1]}\n{TABLES[found['name']]()}\n\n{found[3]}", text)
        if written != text:
            page.write_text(written, encoding="utf-8")
            print(f"wrote {page.relative_to(DOCS.parent)}")


if __name__ == "__main__":
    main()
