"""What a probe costs this tool itself, with a backend that does nothing; and the memory of its processes.

`python benchmarks/own_cost.py`; see README.md beside it. Probes go through the ProbeRunner of a reduction, from a
process that has imported what a reduction imports.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import click
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

# All that the tool imports before it forks anything.
import minifier.capturing.observer  # noqa: E402
import minifier.reduction.reduce_case  # noqa: E402, F401
from minifier.capturing.capture import capture  # noqa: E402
from minifier.capturing.script import Program  # noqa: E402
from minifier.data.case import Case  # noqa: E402
from minifier.data.case.ops import with_ops  # noqa: E402
from minifier.data.case.store import load  # noqa: E402
from minifier.data.failure import Verdict  # noqa: E402
from minifier.process.machine import collapse  # noqa: E402
from minifier.process.temporary import scratch_folder  # noqa: E402
from minifier.reduction.probe.children import run_children  # noqa: E402
from minifier.reduction.probe.prepared_case import prepare_case  # noqa: E402
from minifier.reduction.probe_runner import ProbeRunner  # noqa: E402

SCRIPT, LAYERS = ROOT / "benchmarks/cases/one_op.py", "200"  # 5,015 ops
GRAPHS = (10, 100, 315, 1_000, 5_000)
CANDIDATES = (1, 10, 100, 315, 1_000)
AT_OPS, TARGETS_MS = 315, {315: 15.0, 5_000: 60.0}
TARGET_GIB = 1.2


@dataclass(frozen=True, slots=True)
class Cost:
    """Median milliseconds of a probe of `ops` ops out of a graph of `graph` ops, the tool's own alone."""

    graph: int
    ops: int
    inputs: int
    milliseconds: float


def captured(folder: Path) -> Case:
    """The largest graph of the benchmarks, with the backend that does nothing."""
    ended = capture(Program(str(SCRIPT), (LAYERS,), False), folder)
    if not ended.failing:
        raise click.ClickException(f"{SCRIPT} was captured without a failing graph:\n{ended.traceback}")
    case = load(folder / str(ended.failing[0].number))
    return replace(case, backend=replace(case.backend, name="pocket_nothing", expression="'pocket_nothing'"))


@contextmanager
def lab_for(case: Case) -> Iterator[ProbeRunner]:
    """A ProbeRunner as the reduction stage sets it up."""
    with scratch_folder("minify-own-cost-") as folder:
        lab = ProbeRunner(prepare_case(case), folder)
        try:
            yield lab
        finally:
            shutil.rmtree(lab.scratch, ignore_errors=True)


def milliseconds(work: Callable[[], object], repeats: int) -> float:
    """The median time of some runs."""
    took = []
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        took.append(time.perf_counter() - started)
    return 1_000 * median(took)


def cost(lab: ProbeRunner, names: Sequence[str], repeats: int) -> Cost:
    """Times making the candidate and probing it, from the order to the verdict."""
    case = lab.prepared.case
    candidate = with_ops(case, names)

    def probe() -> None:
        (judged,) = lab.probe([with_ops(case, names)])
        if judged.verdict is not Verdict.PASS:
            raise click.ClickException(f"a probe did not pass: {judged.fault or judged.failure}")

    took = milliseconds(probe, repeats)
    return Cost(len(case.graph.ops), len(candidate.graph.ops), len(candidate.inputs), took)


def costs(whole: Case, repeats: int) -> list[Cost]:
    """The costs of candidates of each size, from graphs of each size: the ops in a row, from the middle."""
    found = []
    names = [node.name for node in whole.graph.ops]
    for size in GRAPHS:
        case = with_ops(whole, names[:size])
        with lab_for(case) as lab:
            ops = [node.name for node in case.graph.ops]
            for count in (*(c for c in CANDIDATES if c < size), size):
                first = (size - count) // 2
                found.append(cost(lab, ops[first : first + count], repeats if count < 1_000 else 3))
    return found


def empty_child(case: Case, repeats: int) -> tuple[float, float]:
    """(ms of a child that does nothing, ms of a bare fork and wait): the floor under every probe."""

    def bare() -> None:
        pid = os.fork()
        if pid == 0:
            os._exit(0)
        os.waitpid(pid, 0)

    with lab_for(case) as lab:
        child = milliseconds(lambda: run_children([dict], lab.limits, lab.scratch), repeats)
    return child, milliseconds(bare, repeats)


@dataclass(frozen=True, slots=True)
class Peaks:
    """Largest resident memory of the tool's processes in GiB, as the kernel keeps it (VmHWM)."""

    main: float
    capture: float
    reduction: float
    probe: float


def _peak(pid: int) -> float:
    """GiB; 0 for a process that is no more. (getrusage would do, but what it tells survives an exec.)"""
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 2**20
    except (FileNotFoundError, ProcessLookupError):
        pass
    return 0.0


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def _is_fork(pid: int, parent: int) -> bool:
    """Whether a process runs its parent's program; a verifying interpreter has a command line of its own."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() == Path(f"/proc/{parent}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False


def peaks_of_run(script: Path) -> Peaks:
    """Runs `minify run` on the script and watches its processes: the main process forks one that captures,
    then one that reduces, and that one forks the probes."""
    with scratch_folder("minify-own-cost-") as folder:
        arguments = ["-m", "minifier", "run", "--out", f"{folder}/out", "--quiet", str(script), LAYERS]
        log = folder / "output.txt"
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, *arguments], cwd=folder, stdout=output, stderr=subprocess.STDOUT
            )
        main = probe = 0.0
        stages: dict[int, float] = {}
        while process.poll() is None:
            main = max(main, _peak(process.pid))
            for child in _children(process.pid):
                if _is_fork(child, process.pid):
                    stages[child] = max(stages.get(child, 0.0), _peak(child))
                    if len(stages) == 2:
                        probe = max([probe, *map(_peak, _children(child))])
            time.sleep(0.02)
        if process.returncode != 0 or len(stages) < 2:
            end = "\n".join(log.read_text(errors="replace").splitlines()[-5:])
            raise click.ClickException(f"minify run {script.name} ended with status {process.returncode}:\n{end}")
        first, second, *_ = stages.values()
        return Peaks(main, first, second, probe)


def cost_table(found: list[Cost]) -> Table:
    """One line per graph and candidate."""
    shown = Table(title="A probe with a backend that does nothing: medians")
    for heading in ("graph's ops", "candidate's ops", "its inputs", "ms a probe", "ms an op of it"):
        shown.add_column(heading, justify="right")
    for i, each in enumerate(found):
        shown.add_row(
            f"{each.graph:,}",
            f"{each.ops:,}",
            f"{each.inputs:,}",
            f"{each.milliseconds:.1f}",
            f"{each.milliseconds / each.ops:.2f}",
            end_section=i + 1 == len(found) or found[i + 1].graph != each.graph,
        )
    return shown


def growth(found: list[Cost], floor: float) -> tuple[float, float]:
    """ms for each op of the candidate above the floor, at 315 ops and at the whole of the largest graph."""
    biggest = [each for each in found if each.graph == max(GRAPHS)]
    at, whole = (next(each for each in biggest if each.ops == ops) for ops in (AT_OPS, max(GRAPHS)))
    return tuple((each.milliseconds - floor) / each.ops for each in (at, whole))  # type: ignore[return-value]


def _met(met: bool) -> str:
    return "met" if met else "NOT met"


@click.command()
@click.option("--repeats", default=9, show_default=True, help="Probes per line, of candidates below 1,000 ops.")
@click.option("--no-memory", is_flag=True, help="Leave out the run that measures memory.")
def main(repeats: int, no_memory: bool) -> None:
    """Measures the tool's own cost of a probe, and the memory of its processes."""
    console = Console(width=None if sys.stdout.isatty() else 120, highlight=False)
    cores = len(os.sched_getaffinity(0))
    console.print(f"{cores} cores, {platform.machine()}, {platform.release()}, Python {platform.python_version()}")
    with scratch_folder("minify-own-cost-") as folder:
        console.print(f"capturing {SCRIPT.name}", style="dim")
        whole = captured(folder)
        collapse()  # as is done while the script runs
        found = costs(whole, repeats)
        small = with_ops(whole, [node.name for node in whole.graph.ops[:AT_OPS]])
        child, fork = empty_child(small, 3 * repeats)
    console.print(cost_table(found))
    console.print(f"a child that does nothing: {child:.1f} ms; of it a bare fork and wait: {fork:.1f} ms\n")
    for ops, target in TARGETS_MS.items():
        of_graph = {each.ops: each.milliseconds for each in found if each.graph == ops}
        whole, one = of_graph[ops], of_graph[1]
        console.print(
            f"own cost in a graph of {ops:,} ops: {whole:.1f} ms for all of them, {one:.1f} ms for one; "
            f"target {target:.0f} ms: {_met(whole <= target)} for all, {_met(one <= target)} for one"
        )
    at, at_end = growth(found, child)
    console.print(
        f"each op of the candidate, the empty child taken off: {at:.2f} ms at {AT_OPS} ops, {at_end:.2f} ms at "
        f"{max(GRAPHS):,}; target no more than linear: {_met(at_end <= 1.25 * at)}"
    )
    if not no_memory:
        console.print(f"minify run {SCRIPT.name}", style="dim")
        peaks = peaks_of_run(SCRIPT)
        console.print(
            f"peak resident memory in GiB: main {peaks.main:.2f}, capture (the user's script) {peaks.capture:.2f}, "
            f"reduction {peaks.reduction:.2f}, largest probe {peaks.probe:.2f}; "
            f"target {TARGET_GIB} for main and reduction: {_met(max(peaks.main, peaks.reduction) <= TARGET_GIB)}"
        )


if __name__ == "__main__":
    main()
