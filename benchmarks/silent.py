"""The table of silent wrong results: programs in which torch.compile computes something else, and nobody looks.

    python benchmarks/silent.py [--only REGEX]... [--write]

Each program of the corpus with a `cause:` runs by itself, under `minify run`, and under torch's own minifier. README.md
has more. The classes of causes are those of a study, arXiv 2604.08720.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import click
import scale
from observing import run_python
from programs import Program, environment, programs

TABLE = Path(__file__).with_name("SILENT.md")
NOTHING = 1  # the exit code where nothing is noticed
# By the study's class: what the report names as at fault.
CAUSES: Mapping[str, str] = {
    "tracing": "Dynamo",
    "symbolic": "Dynamo|inductor",
    "reuse identity": "Dynamo|AOTAutograd",
    "aliasing/mutation": "Dynamo|AOTAutograd|reinplace",
    "decomposition": "decomposition",
    "graph optimisation": "pass",
    "type promotion": "decomposition|lowering",
    "kernel codegen": "lowering|code",
    "layout": "lowering|pass|decomposition|AOTAutograd",
}
_HEADINGS = ("program", "what happens", "cause", "noticed", "reached", "left", "at fault", "named", "torch", "times")
_FIGURES = ((3, "noticed"), (4, "reached"), (7, "with the cause named"), (8, "noticed by torch's own minifier"))
_LIMIT_SECONDS = 300
_Row = Mapping[str, Any]


def is_noticed_by_torch(program: Program) -> bool:
    """Whether torch's own minifier finds a wrong result in the program: it writes a launcher or a repro then."""
    with tempfile.TemporaryDirectory(prefix="minify-silent-") as name:
        folder = Path(name)
        script = program.put_into(folder)
        variables = {
            **environment(),
            "TORCHDYNAMO_REPRO_AFTER": "aot",
            "TORCHDYNAMO_REPRO_LEVEL": "4",
            "TORCH_COMPILE_DEBUG_DIR": str(folder / "debug"),
        }
        run_python([script, *program.arguments], folder, _LIMIT_SECONDS, variables=variables)
        return any((folder / "debug").rglob("*.py"))


def is_noticed(row: _Row) -> bool:
    """Whether the run noticed a failure."""
    return bool(row["exit"] != NOTHING and row["status"])


def names_cause(row: _Row) -> bool:
    """Whether what the report names as at fault belongs to the study's class."""
    return bool(is_noticed(row) and row["part"] and re.search(CAUSES[row["cause"]], row["part"]))


def write_table(rows: Mapping[str, _Row], release: str) -> None:
    """Put the rows of programs with a cause into SILENT.md, whose rows of other programs stay."""
    found = TABLE.read_text(encoding="utf-8").splitlines() if TABLE.exists() else []
    lines = {match[1]: line for line in found if (match := re.match(r"\| \[(\w+)\]", line))}
    lines |= {name: _line(name, row) for name, row in rows.items() if row["cause"]}
    if not lines:
        return
    cells = {name: [cell.strip() for cell in line.strip("|").split(" | ")] for name, line in lines.items()}
    times = sorted(float(row[-1]) for row in cells.values())
    facts = [f"{_share(row[place] for row in cells.values())} {word}" for place, word in _FIGURES]
    by_class = [f"- {cause}: {_of_class(cause, cells.values())}" for cause in CAUSES if _has(cause, cells.values())]
    text = (
        "# Silent wrong results\n\nMade by `python benchmarks/silent.py --write`, with torch "
        f"{release}: {len(cells)} programs, {', '.join(facts)}, in a median of {times[len(times) // 2]:.1f} times the "
        "script's own time. No program checks itself.\n\n" + "\n".join(by_class) + "\n\n"
    )
    head = "| " + " | ".join(_HEADINGS) + " |\n|" + " --- |" * len(_HEADINGS) + "\n"
    TABLE.write_text(text + head + "".join(f"{lines[name]}\n" for name in sorted(lines)), encoding="utf-8")


def _line(name: str, row: _Row) -> str:
    words = [f"[{name}]({row['source']})", row["what"], row["cause"], _said(is_noticed(row)), _said(not row["missed"])]
    words += ["" if row["size"] is None else str(row["size"]), row["part"] or "", _said(names_cause(row))]
    words.append("yes" if row["torch"] else "no")
    return "| " + " | ".join(word.replace("|", "\\|") for word in [*words, f"{row['times']:.1f}"]) + " |"


def _said(holds: bool) -> str:
    return "yes" if holds else "**no**"


def _share(cells: Iterable[str]) -> str:
    found = [cell == "yes" for cell in cells]
    return f"{sum(found) / len(found):.0%}"


def _has(cause: str, rows: Iterable[list[str]]) -> bool:
    return any(row[2] == cause for row in rows)


def _of_class(cause: str, rows: Iterable[list[str]]) -> str:
    own = [row for row in rows if row[2] == cause]
    return ", ".join(f"{sum(row[place] == 'yes' for row in own)} of {len(own)} {word}" for place, word in _FIGURES)


@click.command()
@click.option("--only", multiple=True, metavar="REGEX", help="Programs whose names have this in them.")
@click.option("--write", is_flag=True, help="Put the rows into SILENT.md.")
def main(only: tuple[str, ...], write: bool) -> None:
    """Run the programs of silent wrong results and print what came of them, as JSON."""
    rows: dict[str, Mapping[str, Any]] = {}
    for program in programs(only):
        if "cause" not in program.facts or program.lacks():
            continue
        with tempfile.TemporaryDirectory(prefix="minify-silent-") as folder:
            row = scale.run(program, Path(folder)) | {"torch": is_noticed_by_torch(program)}
        rows[program.name] = row
        click.echo(f"{program.name}: {'; '.join(row['missed']) or 'reached'}; at fault {row['part']}", err=True)
        if write:
            write_table(rows, importlib.metadata.version("torch").partition("+")[0])
    click.echo(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
