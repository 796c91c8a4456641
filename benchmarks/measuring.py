"""One failing script: by itself, under this tool, under this tool without its ideas, under torch's minifier."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

import click
from ablated import ABLATIONS
from observing import Shown, error_in, lines_in, run_python
from torch_minifier import TorchRun, run_torch_minifier, told

ROOT = Path(__file__).resolve().parents[1]
HERE = ROOT / "benchmarks" / "cases"
SLOW = 10.0  # seconds of a script from which on it is run by itself once, not three times
MINIFY, TORCH = "minify run", "torch's minifier"


@dataclass(frozen=True, slots=True)
class Script:
    """A failing script. `planted` is how many ops the fault takes; `after` what torch's minifier is told; with `parts`
    the tool is also run without each of its ideas."""

    path: Path
    arguments: tuple[str, ...] = ()
    planted: int = 1
    after: str = "dynamo"
    parts: bool = False


CASES = {
    "one_op_100": Script(HERE / "one_op.py", ("4",)),
    "one_op_315": Script(HERE / "one_op.py", parts=True),
    "one_op_1000": Script(HERE / "one_op.py", ("39",)),
    "one_op_5000": Script(HERE / "one_op.py", ("200",)),
    "two_ops_100": Script(HERE / "two_ops.py", ("4",), planted=2, parts=True),
    "two_ops_315": Script(HERE / "two_ops.py", planted=2),
    "two_ops_1000": Script(HERE / "two_ops.py", ("39",), planted=2),
    "two_ops_5000": Script(HERE / "two_ops.py", ("200",), planted=2),
    "densenet": Script(ROOT / "samples/docs_densenet.py"),
    "bert": Script(HERE / "bert.py"),
    "backward": Script(HERE / "backward.py"),
    "inductor_raise": Script(HERE / "inductor_raise.py", after="aot"),
    "inductor_wrong": Script(HERE / "inductor_wrong.py", after="aot"),
}


@dataclass(frozen=True, slots=True)
class Row:
    """One tool on one case; None where the tool does not tell. `times` is in units of the script's own time, `repro`
    in words, `sizes` the ops of the smallest failing candidate after each probe."""

    case: str
    who: str
    seconds: float
    ended: str
    times: float = 0.0
    probes: int | None = None
    at_least: bool = False
    ops_before: int | None = None
    ops_after: int | None = None
    elements: int | None = None
    lines: int | None = None
    repro: str = ""
    verified: bool = False
    mebibytes: float = 0.0
    planted: int = 1
    phases: dict[str, float] = field(default_factory=dict)
    sizes: tuple[int, ...] = ()

    @property
    def bound(self) -> float | None:
        """Fewest probes that can tell so many ops from all others: log2 C(n, m)."""
        return None if not self.ops_before else math.log2(math.comb(self.ops_before, self.planted))


def _sizes(journal: Path) -> tuple[int, ...]:
    best, found = math.inf, []
    for line in journal.read_text(encoding="utf-8").splitlines():
        entry = json.loads(line)
        ops = int(entry["ops"])
        best = min(best, ops) if entry["verdict"] == "SAME" else best
        found.append(int(best) if best < math.inf else ops)
    return tuple(found)


def measure_minify(
    name: str, script: Script, folder: Path, limit: float, sought: Shown, without: str | None = None
) -> Row:
    """`minify run` on the script, and its repro once more in a fresh interpreter."""
    out = folder / "out"
    command = ["-m", "minifier"] if without is None else [ROOT / "benchmarks" / "ablated.py", without]
    ran = run_python([*command, "run", "--out", out, "--quiet", script.path, *script.arguments], folder, limit)
    path = out / "result.json"
    result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    who = MINIFY if without is None else without
    if ran.unfinished or not result:
        ended = f"unfinished in {limit:.0f} s" if ran.unfinished else f"exit status {ran.status}, no result"
        return Row(name, who, ran.seconds, ended, mebibytes=ran.mebibytes)
    repro, text = "none written", ""
    if result["repro"]:
        text = (out / result["repro"]).read_text(encoding="utf-8")
        again = run_python([out / result["repro"]], folder, limit, [script.path.parent])
        repro = told(again, sought)
    seconds = result["seconds"]
    phases = {phase: seconds[phase] for phase in ("capture", "reduce", "verify")}
    phases["rest"] = ran.seconds - sum(phases.values())
    return Row(
        name,
        who,
        ran.seconds,
        "minimal" if result["one_minimal"] else result["stopped_because"] or result["status"],
        probes=result["probes"]["total"],
        ops_before=result["ops_before"],
        ops_after=result["ops_after"],
        elements=result["elements_after"],
        lines=lines_in(text) if text else None,
        repro=repro,
        verified=bool(result["verified"]["runs"]) and result["verified"]["runs"] == result["verified"]["same"],
        mebibytes=ran.mebibytes,
        planted=script.planted,
        phases=phases,
        sizes=_sizes(out / "journal.jsonl"),
    )


def torch_row(name: str, run: TorchRun, script: Script, ops_before: int | None) -> Row:
    """The other tool's run as a row of the table."""
    return Row(
        name,
        TORCH,
        run.seconds,
        f"{run.ended}; import added to the launcher" if run.helped else run.ended,
        probes=run.queries,
        at_least=run.at_least,
        ops_before=ops_before,
        ops_after=run.ops,
        elements=run.elements,
        lines=run.lines,
        repro=run.repro,
        verified=run.repro.startswith("yes"),
        mebibytes=run.mebibytes,
        planted=script.planted,
    )


def measure(
    name: str, script: Script, limit: float, runs: int, with_torch: bool, with_parts: bool, say: Callable[[str], None]
) -> tuple[float, list[Row]]:
    """(the script's own seconds, the rows). The script runs by itself before, between and after the tools,
    so that a machine that is busy for a while does not favour one of them; `runs` (up to 3) says how often."""
    alone: list[float] = []
    shown: list[Shown] = []
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="minify-compare-") as work:

        def folder(part: str) -> Path:
            made = Path(work) / part
            made.mkdir(exist_ok=True)
            return made

        def run_alone() -> None:
            if len(alone) >= runs or (alone and alone[0] > SLOW):
                return
            ran = run_python([script.path, *script.arguments], folder("alone"), limit)
            error = error_in(ran.output)
            if ran.unfinished or error is None:
                raise click.ClickException(f"{script.path} does not end with an exception within {limit:.0f} s")
            shown.append(error)
            alone.append(ran.seconds)

        say(f"{name}: the script by itself, then {MINIFY}")
        run_alone()
        rows.append(measure_minify(name, script, folder("minify"), limit, shown[0]))
        run_alone()
        for part in ABLATIONS if with_parts and script.parts else ():
            say(f"{name}: {part}")
            rows.append(measure_minify(name, script, folder(part), limit, shown[0], part))
        if with_torch:
            say(f"{name}: {TORCH}, at most {limit:.0f} s a step")
            theirs = run_torch_minifier(script.path, script.arguments, folder("torch"), limit, shown[0], script.after)
            rows.append(torch_row(name, theirs, script, rows[0].ops_before))
        run_alone()
    own = median(alone)
    return own, [replace(row, times=row.seconds / own) for row in rows]


def selected(names: str | None) -> dict[str, Script]:
    """The cases asked for; a name that is no case is taken for the path of a script."""
    if names is None:
        return CASES
    found = {}
    for name in filter(None, names.split(",")):
        script = CASES.get(name) or Script(Path(name).resolve())
        if not script.path.is_file():
            raise click.BadParameter(f"{name} is neither a script nor one of {', '.join(CASES)}")
        found[name if name in CASES else script.path.stem] = script
    return found


def told_of(rows: Sequence[Row], who: str) -> dict[str, Row]:
    """The rows of one tool, by case."""
    return {row.case: row for row in rows if row.who == who}
