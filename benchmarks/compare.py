"""This tool and torch's own minifier on the same failing scripts, in one run on one machine.

`python benchmarks/compare.py`; see README.md beside it. Prints tables, and judges nothing by seconds.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import click
from measuring import CASES, Row, measure, selected
from results import phases, picture, table, targets

HERE = Path(__file__).resolve().parent
OTHERS = {"What a probe costs by itself": "own_cost.py", "Probes of the search, planted faults": "search_counts.py"}
NOTE = (
    "Wall time is that of all processes, interpreter start and verification included; of torch's minifier that of the "
    "script under its variables, and of its launcher: finding out which import is missing there is not counted. Its "
    "repro is not verified by it: that run is not counted either. `/ bound` is probes over log2 C(n, m), the fewest "
    "that can find m ops of n. Peak memory is of the largest process, what it shares with others included."
)


def _say(line: str) -> None:
    print(line, flush=True)


def machine() -> str:
    """What the numbers were measured on."""
    from importlib.metadata import version

    return (
        f"{len(os.sched_getaffinity(0))} cores, {platform.machine()}, {platform.system()} {platform.release()}; "
        f"torch {version('torch')}, Python {platform.python_version()}, torch-minify {version('torch-minify')}"
    )


@click.command()
@click.option("--cases", metavar="NAMES", help=f"Comma-separated: {', '.join(CASES)}, or paths of failing scripts.")
@click.option("--no-torch", is_flag=True, help="Leave torch's own minifier out.")
@click.option("--no-parts", is_flag=True, help="Leave out the runs of this tool without one of its ideas.")
@click.option("--limit", default=120.0, show_default=True, help="Seconds that each step of each tool may take.")
@click.option("--runs", default=3, show_default=True, type=click.IntRange(1, 3), help="Runs of the script by itself.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write the rows to this file as well.")
@click.option("--write", is_flag=True, help="Write RESULTS.md and results.svg beside this script.")
def main(
    cases: str | None, no_torch: bool, no_parts: bool, limit: float, runs: int, json_path: Path | None, write: bool
) -> None:
    """Compares `minify run` with torch's own minifier."""
    wanted = selected(cases)
    print(machine())
    own: dict[str, float] = {}
    rows: list[Row] = []
    for name, script in wanted.items():
        own[name], found = measure(name, script, limit, runs, not no_torch, not no_parts, _say)
        rows += found
        if json_path is not None:
            data = {"machine": machine(), "own": own, "rows": [asdict(row) for row in rows]}
            json_path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    parts = [table(rows, own), NOTE, "## What is to be reached", targets(rows), "## Seconds by phase", phases(rows)]
    print("\n\n".join(parts))
    if write:
        picture(rows, HERE / "results.svg")
        today = f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%d}"
        head = f"Made by `make bench` on {today}; never by hand.\n\n{machine()}; at most {limit:.0f} s a step."
        shown = "## Size over probes\n\n![Ops of the smallest failing candidate over probes, by case](results.svg)"
        others = [f"## {title}\n\n```\n{_printed(script)}\n```" for title, script in OTHERS.items()]
        text = "\n\n".join(["# Results", head, *parts, shown, *others])
        (HERE / "RESULTS.md").write_text(text + "\n", encoding="utf-8")


def _printed(script: str) -> str:
    """What another script of this folder prints."""
    done = subprocess.run([sys.executable, HERE / script], capture_output=True, text=True, check=True)
    print(done.stdout)
    return "\n".join(line.rstrip() for line in done.stdout.strip().splitlines())


if __name__ == "__main__":
    main()
