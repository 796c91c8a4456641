"""What `minify run` makes of the corpus of failing programs, as numbers that two builds can be compared by.

    python benchmarks/scale.py [--only REGEX]... [--write] > new.json
    python benchmarks/scale.py --diff old.json new.json

See README.md beside it.
"""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
from programs import ROOT, Program, environment, programs, result_in, size_in

TABLE = ROOT / "benchmarks" / "REAL.md"
_LIMIT_SECONDS = 900
_HEADINGS = ("case", "what happens", "to reach", "exit", "ops", "lines", "probes", "control", "/ script", "reached")
# What a change may cost a program before it has to be explained.
_MORE_OPS, _MORE_LINES = 2, 4

Row = dict[str, Any]


def run(program: Program, folder: Path, tool: Sequence[str] = ("-m", "minifier")) -> Row:
    """Run a program by itself, then under `minify run`, both in the folder; return what came of it.

    `tool` is what Python runs as minify.
    """
    script = program.put_into(folder)
    alone, _, _ = _timed([sys.executable, script.name, *program.arguments], folder)
    command = [sys.executable, *tool, "run", "--quiet", "--out", "out", *program.options, script.name]
    seconds, code, printed = _timed([*command, *program.arguments], folder)
    result, repro = result_in(folder / "out"), folder / "out" / "repro.py"
    text = repro.read_text(encoding="utf-8") if repro.exists() else ""
    explained, report = result.get("explained") or {}, folder / "out" / "report.md"
    taken = re.search(
        "steps beyond a run of the script: (.*)", report.read_text(encoding="utf-8") if report.exists() else ""
    )
    return {
        "what": program.what,
        "source": program.facts.get("source"),
        "reach": program.facts["reach"],
        "exit": code,
        "status": result.get("status"),
        "verified": result.get("verified"),
        "level": result.get("level"),
        "size": size_in(result),
        "lines": len(text.splitlines()) or None,
        "probes": result.get("probes", {}).get("total"),
        "script": round(alone, 2),
        "times": round(seconds / alone, 2),
        "phases": result.get("seconds", {}).get("phases"),
        "fallbacks": taken[1] if taken is not None else "",
        "passes": _passes(folder / "out" / "journal.jsonl"),
        "cause": program.facts.get("cause"),
        "part": explained.get("part"),
        "needs": result.get("needs"),
        "missed": program.missed(code, printed, folder / "out"),
        "repro": text,
    }


def _passes(journal: Path) -> list[str]:
    """Return the passes and phases of which a candidate showed the failure."""
    lines = journal.read_text(encoding="utf-8").splitlines() if journal.exists() else []
    entries = (json.loads(line) for line in lines)
    return sorted({entry.get("pass", entry["phase"]) for entry in entries if entry.get("verdict") == "SAME"})


def _timed(command: Sequence[str], folder: Path) -> tuple[float, int, str]:
    """Run a command; return its seconds, its exit status and what it printed on standard error.

    One that takes longer than the limit is interrupted, as a person would, and hands over what it has.
    """
    began = time.monotonic()
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            command, cwd=folder, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors
        ) as process,
    ):
        try:
            process.wait(_LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            process.wait(_LIMIT_SECONDS)
        seconds = time.monotonic() - began
        errors.seek(0)
        return seconds, process.returncode, errors.read()


def table_line(name: str, row: Row) -> str:
    """Return the line of a program in REAL.md."""
    control = (row["verified"] or {}).get("control") or ""
    numbers = ["" if row[key] is None else str(row[key]) for key in ("size", "lines", "probes")]
    cells = [f"[{name}]({row['source']})", row["what"], row["reach"], str(row["exit"]), *numbers, control]
    cells += [f"{row['times']:.1f}", "**no**" if row["missed"] else "yes"]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def write_table(rows: Mapping[str, Row]) -> None:
    """Put the rows of reported failures into REAL.md, whose rows of other programs stay."""
    found = TABLE.read_text(encoding="utf-8").splitlines() if TABLE.exists() else []
    lines = {match[1]: line for line in found if (match := re.match(r"\| \[(\w+)\]", line))}
    lines |= {name: table_line(name, row) for name, row in rows.items() if row["source"] and not row.get("cause")}
    times = sorted(float(line.rsplit(" | ", 2)[1]) for line in lines.values())
    reached = f"{sum(line.endswith('| yes |') for line in lines.values())} of {len(lines)} reached"
    head = "| " + " | ".join(_HEADINGS) + " |\n|" + " --- |" * len(_HEADINGS)
    median = f"in a median of {times[len(times) // 2]:.1f} times the script's own time, {times[-1]:.1f} at most"
    text = f"# Real failures\n\nMade by `python benchmarks/scale.py --write`. {reached}, {median}.\n\n{head}\n"
    TABLE.write_text(text + "".join(f"{lines[name]}\n" for name in sorted(lines)), encoding="utf-8")


def differences(old: Mapping[str, Row], new: Mapping[str, Row]) -> list[str]:
    """Compare two runs of the corpus; return the lines to print, the programs that became worse first."""
    both = [name for name in old if name in new]
    worse = [f"worse   {name}: {'; '.join(told)}" for name in both if (told := _losses(old[name], new[name]))]
    better = [f"better  {name}: {'; '.join(told)}" for name in both if (told := _losses(new[name], old[name]))]
    sums = [sum(rows[name]["times"] for name in both) for rows in (old, new)]
    total = f"{len(both)} programs; the ratios to the scripts' own time sum up to {sums[0]:.0f}, now {sums[1]:.0f}"
    change = f" ({sums[1] / sums[0] - 1:+.0%})" if both else ""
    probes = [sum(rows[name]["probes"] or 0 for name in both) for rows in (old, new)]
    return [*worse, *better, f"{total}{change}; probes {probes[0]}, now {probes[1]}."]


def _losses(old: Row, new: Row) -> list[str]:
    """Return what the first row has that the second has no longer."""
    told = [f"missed now: {each}" for each in new["missed"] if each not in old["missed"]]
    if old["repro"] and not new["repro"]:
        return [*told, "no repro"]
    for key, allowed in (("size", _MORE_OPS), ("lines", _MORE_LINES)):
        if old[key] is not None and new[key] is not None and new[key] > old[key] + allowed:
            told.append(f"{key} {old[key]} -> {new[key]}")
    return told


@click.command()
@click.option("--only", multiple=True, metavar="REGEX", help="Programs whose names have this in them.")
@click.option("--write", is_flag=True, help="Put the rows into REAL.md.")
@click.option("--diff", type=(click.Path(path_type=Path), click.Path(path_type=Path)), metavar="OLD NEW")
def main(only: tuple[str, ...], write: bool, diff: tuple[Path, Path] | None) -> None:
    """Run the corpus and print what came of it, as JSON; or print what differs between two such runs."""
    if diff:
        old, new = (json.loads(path.read_text(encoding="utf-8")) for path in diff)
        click.echo("\n".join(differences(old, new)))
        return
    rows: dict[str, Row] = {}
    for program in programs(only):
        if lacking := program.lacks():
            click.echo(f"{program.name}: left out, for it needs {lacking}", err=True)
            continue
        with tempfile.TemporaryDirectory(prefix="minify-scale-") as folder:
            row = rows[program.name] = run(program, Path(folder))
        what = "; ".join(row["missed"]) or "reached"
        click.echo(f"{program.name}: {what}; {row['size']} left, {row['times']:.1f} times the script", err=True)
        if write:
            write_table(rows)
    click.echo(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
