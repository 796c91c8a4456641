"""`minify run` on real failing programs: how many end with what a person would hand over.

`python benchmarks/real.py [SCRIPT...] [--write]`; see README.md beside it.
"""

from __future__ import annotations

import ast
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

HERE = Path(__file__).resolve().parent
SCRIPTS, TABLE = HERE / "real", HERE / "REAL.md"
_LIMIT_SECONDS = 900
_HEADINGS = ("case", "what happens", "to reach", "exit", "ops", "lines", "probes", "control", "/ script", "reached")
_REACH = re.compile(r"^exit (?P<exit>\d)(?:, (?P<size>\d+) (?P<unit>ops?|statements?))?$")


@dataclass(frozen=True, slots=True)
class Real:
    """A failing program: how it fails, where that is reported, and what its repro has to be.

    `size` is the most ops, or statements, that the repro may have; None where there is none to be had. `shows` is a
    regular expression that has to match in the repro: the op at fault and the error, which tell it from another's.
    """

    path: Path
    what: str
    source: str
    reach: str
    exit: int
    size: int | None
    shows: str

    @classmethod
    def read(cls, path: Path) -> Real:
        """Read the docstring of a script: a sentence, `source: URL`, `reach: exit 0, 1 op` and `shows: REGEX`."""
        told = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        facts = dict(re.findall(r"^(source|reach|shows): (.+)$", told, re.MULTILINE))
        reach = _REACH.match(facts.get("reach", ""))
        if reach is None or not {"source", "shows"} <= facts.keys():
            raise click.ClickException(f"{path}: its docstring lacks `source:`, `shows:` or `reach: exit 0, 1 op`")
        what = " ".join(told.partition("\n\n")[0].split())
        size = int(reach["size"]) if reach["size"] else None
        return cls(path, what, facts["source"], facts["reach"], int(reach["exit"]), size, facts["shows"])


@dataclass(frozen=True, slots=True)
class Reached:
    """What one run came to. `times` is its seconds over those of the script by itself."""

    real: Real
    exit: int
    size: int | None
    repro: str
    probes: int | None
    control: str
    times: float

    @property
    def is_reached(self) -> bool:
        """Whether the exit code is right, and the repro is small enough, shows the failure, and its control passes."""
        real = self.real
        if self.exit != real.exit or real.size is None:
            return self.exit == real.exit
        is_small = self.size is not None and self.size <= real.size
        return is_small and self.control == "passed" and re.search(real.shows, self.repro, re.DOTALL) is not None

    def row(self) -> str:
        """Return the line of the table."""
        lines = len(self.repro.splitlines()) or None
        numbers = ["" if number is None else str(number) for number in (self.size, lines, self.probes)]
        name, reached = f"[{self.real.path.stem}]({self.real.source})", "yes" if self.is_reached else "**no**"
        cells = [name, self.real.what, self.real.reach, str(self.exit), *numbers, self.control]
        cells += [f"{self.times:.1f}", reached]
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def run(real: Real, out: Path) -> Reached:
    """Run the script by itself, then under `minify run`, whose output goes to `out`."""
    alone = _seconds([sys.executable, str(real.path)])[1]
    command = [sys.executable, "-m", "minifier", "run", "--quiet", "--out", str(out), str(real.path)]
    code, seconds = _seconds(command)
    place, repro = out / "result.json", out / "repro.py"
    result = json.loads(place.read_text(encoding="utf-8")) if place.exists() else {}
    size = result.get("ops_after") if result.get("level") != "source" else result.get("statements_after")
    text = repro.read_text(encoding="utf-8") if repro.exists() else ""
    control = result["verified"]["control"] or "" if text else ""
    return Reached(real, code, size, text, result.get("probes", {}).get("total"), control, seconds / alone)


def _seconds(command: Sequence[str]) -> tuple[int, float]:
    """Run a command without its output; return its exit status and seconds.

    One that takes longer than the limit is interrupted, as a person would, and hands over what it has.
    """
    began = time.monotonic()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    null = subprocess.DEVNULL
    with subprocess.Popen(command, env=environment, stdin=null, stdout=null, stderr=null) as process:
        try:
            process.wait(_LIMIT_SECONDS)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
            process.wait(_LIMIT_SECONDS)
    return process.returncode, time.monotonic() - began


def _write(rows: Sequence[Reached]) -> None:
    """Put the rows into REAL.md, whose rows of other scripts stay as they are."""
    found = TABLE.read_text(encoding="utf-8").splitlines() if TABLE.exists() else []
    lines = {match[1]: line for line in found if (match := re.match(r"\| \[(\w+)\]", line))}
    lines |= {row.real.path.stem: row.row() for row in rows}
    reached = f"{sum(line.endswith('| yes |') for line in lines.values())} of {len(lines)} reached."
    head = "| " + " | ".join(_HEADINGS) + " |\n|" + " --- |" * len(_HEADINGS)
    text = f"# Real failures\n\nMade by `python benchmarks/real.py --write`. {reached}\n\n{head}\n"
    TABLE.write_text(text + "".join(f"{lines[name]}\n" for name in sorted(lines)), encoding="utf-8")


@click.command()
@click.argument("scripts", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--write", is_flag=True, help="Put the rows into REAL.md.")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="Keep the output folders here.")
def main(scripts: tuple[Path, ...], write: bool, out: Path | None) -> None:
    """Run SCRIPTS, by default all in benchmarks/real, and print a row of what was reached for each."""
    rows: list[Reached] = []
    with tempfile.TemporaryDirectory(prefix="minify-real-") as folder:
        for path in scripts or sorted(SCRIPTS.glob("*.py")):
            rows.append(run(Real.read(path), (out or Path(folder)) / path.stem))
            click.echo(rows[-1].row())
            if write:
                _write(rows)
    click.echo(f"{sum(row.is_reached for row in rows)} of {len(rows)} reached.")


if __name__ == "__main__":
    main()
