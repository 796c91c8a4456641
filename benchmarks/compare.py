"""This tool and torch's own minifier on the same failing scripts, in one run on one machine.

`python benchmarks/compare.py`; see README.md beside it. Prints tables, and judges nothing by seconds.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

import click
from observing import Shown, error_in, run_python
from rich.console import Console
from rich.table import Table
from torch_minifier import TorchRun, run_torch_minifier, told

ROOT = Path(__file__).resolve().parents[1]
CASES = {
    "one_op": ROOT / "benchmarks/cases/one_op.py",
    "two_ops": ROOT / "benchmarks/cases/two_ops.py",
    "densenet": ROOT / "samples/docs_densenet.py",
    "one_op_5000": ROOT / "benchmarks/cases/one_op_5000.py",
}
SLOW = 10.0  # seconds of a script from which on it is run by itself once, not three times
MINIFY, TORCH = "minify run", "torch's minifier"


@dataclass(frozen=True, slots=True)
class Row:
    """One tool on one case. `times` is in units of the script's own time; `probes` and `ops_after` are
    None where the tool does not tell; `repro` is in words."""

    case: str
    who: str
    seconds: float
    times: float
    probes: int | None
    at_least: bool
    ops_before: int | None
    ops_after: int | None
    repro: str
    ended: str
    phases: dict[str, float]


def _result(out: Path) -> dict[str, Any]:
    path = out / "result.json"
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return found


def measure_minify(name: str, script: Path, folder: Path, limit: float, own: float, sought: Shown) -> Row:
    """`minify run` on the script, and its repro once more in a fresh interpreter."""
    out = folder / "out"
    ran = run_python(["-m", "minifier", "run", "--out", out, "--quiet", script], folder, limit)
    result = _result(out)
    if ran.unfinished or not result:
        ended = f"unfinished in {limit:.0f} s" if ran.unfinished else f"exit status {ran.status}, no result"
        return Row(name, MINIFY, ran.seconds, ran.seconds / own, None, False, None, None, "", ended, {})
    repro = "none written"
    if result["repro"]:
        again = run_python([out / result["repro"]], folder, limit, [script.parent])
        verified = result["verified"]
        repro = f"{told(again, sought)}; verified {verified['same']} of {verified['runs']}"
    seconds = result["seconds"]
    phases = {phase: seconds[phase] for phase in ("capture", "reduce", "verify")}
    phases["rest"] = ran.seconds - sum(phases.values())
    return Row(
        name,
        MINIFY,
        ran.seconds,
        ran.seconds / own,
        result["probes"]["total"],
        False,
        result["ops_before"],
        result["ops_after"],
        repro,
        "minimal" if result["one_minimal"] else result["stopped_because"] or result["status"],
        phases,
    )


def torch_row(name: str, run: TorchRun, own: float, ops_before: int | None) -> Row:
    """The other tool's run as a row of the table."""
    ended = f"{run.ended}; import added to the launcher" if run.helped else run.ended
    times = run.seconds / own
    return Row(name, TORCH, run.seconds, times, run.queries, run.at_least, ops_before, run.ops, run.repro, ended, {})


def measure(
    name: str, script: Path, limit: float, runs: int, with_torch: bool, say: Console
) -> tuple[float, list[Row]]:
    """(the script's own seconds, the rows). The script runs by itself before, between and after the tools,
    so that a machine that is busy for a while does not favour one of them; `runs` (up to 3) says how often."""
    alone: list[float] = []
    sought: Shown | None = None

    def run_alone(folder: Path) -> None:
        nonlocal sought
        if len(alone) >= runs or (alone and alone[0] > SLOW):
            return
        ran = run_python([script], folder, limit)
        if ran.unfinished or error_in(ran.output) is None:
            raise click.ClickException(f"{script} does not end with an exception within {limit:.0f} s")
        sought = sought or error_in(ran.output)
        alone.append(ran.seconds)

    with tempfile.TemporaryDirectory(prefix="minify-compare-") as work:
        folders = {part: Path(work) / part for part in ("alone", "minify", "torch")}
        for folder in folders.values():
            folder.mkdir()
        say.print(f"{name}: the script by itself, then {MINIFY}", style="dim")
        run_alone(folders["alone"])
        assert sought is not None
        # Times are put in relation to the script's own when that is known for good.
        ours = measure_minify(name, script, folders["minify"], limit, 1.0, sought)
        run_alone(folders["alone"])
        theirs = None
        if with_torch:
            say.print(f"{name}: {TORCH}, at most {limit:.0f} s a step", style="dim")
            theirs = run_torch_minifier(script, folders["torch"], limit, sought)
        run_alone(folders["alone"])
    own = median(alone)
    rows = [Row(**{**asdict(ours), "times": ours.seconds / own})]
    if theirs is not None:
        rows.append(torch_row(name, theirs, own, ours.ops_before))
    return own, rows


def table(rows: list[Row], own: dict[str, float]) -> Table:
    """The table of both tools."""
    shown = Table(title="torch's minifier and this tool; wall time in seconds and in times of the script's own")
    for heading in ("case", "who", "wall s", "times", "probes", "ops", "repro shows the error", "end"):
        shown.add_column(heading, justify="right" if heading in ("wall s", "times", "probes") else "left")
    for name, seconds in own.items():
        shown.add_row(name, "the script by itself", f"{seconds:.1f}", "1.0")
        for row in (row for row in rows if row.case == name):
            probes = "?" if row.probes is None else f"{'>= ' if row.at_least else ''}{row.probes}"
            before, after = ("?" if n is None else f"{n:,}" for n in (row.ops_before, row.ops_after))
            ops = f"{before} -> {after}"
            shown.add_row("", row.who, f"{row.seconds:.1f}", f"{row.times:.1f}", probes, ops, row.repro, row.ended)
        shown.add_section()
    return shown


def phase_table(rows: list[Row]) -> Table:
    """Where the time of `minify run` goes."""
    shown = Table(title=f"{MINIFY}: seconds by phase (rest: importing, writing, ending)")
    shown.add_column("case")
    for phase in ("capture", "reduce", "verify", "rest"):
        shown.add_column(phase, justify="right")
    for row in rows:
        if row.phases:
            shown.add_row(row.case, *(f"{seconds:.1f}" for seconds in row.phases.values()))
    return shown


def machine() -> str:
    """What the numbers were measured on."""
    from importlib.metadata import version

    return (
        f"{len(os.sched_getaffinity(0))} cores, {platform.machine()}, {platform.system()} {platform.release()}; "
        f"torch {version('torch')}, Python {platform.python_version()}"
    )


def chosen(names: str | None) -> dict[str, Path]:
    """The cases asked for; a name that is no case is taken for the path of a script."""
    if names is None:
        return CASES
    found = {}
    for name in filter(None, names.split(",")):
        script = CASES.get(name, Path(name)).resolve()
        if not script.is_file():
            raise click.BadParameter(f"{name} is neither a script nor one of {', '.join(CASES)}")
        found[name if name in CASES else script.stem] = script
    return found


@click.command()
@click.option("--cases", metavar="NAMES", help=f"Comma-separated: {', '.join(CASES)}, or paths of failing scripts.")
@click.option("--no-torch", is_flag=True, help="Leave torch's own minifier out.")
@click.option("--limit", default=120.0, show_default=True, help="Seconds that each step of each tool may take.")
@click.option("--runs", default=3, show_default=True, type=click.IntRange(1, 3), help="Runs of the script by itself.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write the rows to this file as well.")
def main(cases: str | None, no_torch: bool, limit: float, runs: int, json_path: Path | None) -> None:
    """Compares `minify run` with torch's own minifier."""
    wanted = chosen(cases)
    # Beside a terminal that has a width of its own, wide enough for a line per row.
    console = Console(width=None if sys.stdout.isatty() else 170, highlight=False)
    console.print(machine())
    own: dict[str, float] = {}
    rows: list[Row] = []
    for name, script in wanted.items():
        own[name], found = measure(name, script, limit, runs, not no_torch, console)
        rows += found
    console.print(table(rows, own), phase_table(rows))
    if not no_torch:
        console.print(
            "Wall time of torch's minifier: the script under its variables, and the launcher; finding out which "
            "import is missing is not counted. Its repro is not verified by it: that run is not counted either."
        )
    if json_path is not None:
        data = {"machine": machine(), "own": own, "rows": [asdict(row) for row in rows]}
        json_path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
