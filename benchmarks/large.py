"""`minify run` on large failures: a long graph, many graphs, heavy weights, a long message, much output.

`python benchmarks/large.py [CASE...] [--write]`; see README.md beside it. Memory is the peak of all processes together,
each page shared by several counted once (PSS), looked at five times a second.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import psutil

TABLE = Path(__file__).resolve().parents[1] / "notes" / "scale.md"
_LIMIT_SECONDS = 3600
_LOOK_SECONDS = 0.2

_BACKEND = """
import torch


def refuse(gm, inputs):
    if any(getattr(node.target, "__name__", "") == "erf" for node in gm.graph.nodes):
        raise LookupError(MESSAGE)
    return gm.forward
"""
_CHAIN = """
import refusing
import torch


def chain(x):
    for step in range(LENGTH):
        x = torch.sin(x) + 1
    x = torch.erf(x)
    for step in range(LENGTH):
        x = torch.cos(x) * 2
    return x


print("a line of output\\n" * LINES, end="")
torch.compile(chain, backend=refusing.refuse)(torch.randn(4, 4))
"""
_PIECE = """\
    x = torch.sin(x) + 1
    torch._dynamo.graph_break()
"""
_GRAPHS = f"""
import refusing
import torch


def pieces(x):
{_PIECE * 200}
    return torch.erf(x)


torch.compile(pieces, backend=refusing.refuse)(torch.randn(4, 4))
"""
_WEIGHTS = """
import refusing
import torch


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = torch.nn.Linear(width, 4 * width, bias=False, dtype=torch.bfloat16)
        self.down = torch.nn.Linear(4 * width, width, bias=False, dtype=torch.bfloat16)

    def forward(self, x):
        return x + self.down(torch.erf(self.up(x)))


with torch.no_grad():
    model = torch.nn.Sequential(*(Block(4096) for n in range(16)))
    torch.compile(model, backend=refusing.refuse)(torch.randn(2, 4096, dtype=torch.bfloat16))
"""
_SHORT = '"no kernel for erf"'
_LONG = '"no kernel for erf: " + "x1 " * 3_500_000'


@dataclass(frozen=True, slots=True)
class Large:
    """A failing script, and what its backend raises."""

    what: str
    script: str
    message: str = _SHORT


CASES = {
    "ops": Large("a graph of 20,001 ops", _CHAIN.replace("LENGTH", "5_000").replace("LINES", "0")),
    "graphs": Large("200 graph breaks; the last graph fails", _GRAPHS),
    "weights": Large("weights of 4 GiB in bfloat16", _WEIGHTS),
    "message": Large("a message of 10 MB", _CHAIN.replace("LENGTH", "10").replace("LINES", "0"), _LONG),
    "output": Large("1,000,000 lines of output", _CHAIN.replace("LENGTH", "10").replace("LINES", "1_000_000")),
}


@dataclass(frozen=True, slots=True)
class Measured:
    """A command that has ended: its exit status, wall seconds, and peak PSS in MiB."""

    status: int
    seconds: float
    mebibytes: float


def _pss(process: psutil.Process) -> int:
    with contextlib.suppress(psutil.Error, OSError):
        return int(process.memory_full_info().pss)
    return 0  # it has ended


def measure(arguments: Sequence[str], folder: Path) -> Measured:
    """Run `python ARGUMENTS...` in the folder, and look at the memory of all its processes."""
    started, peak = time.monotonic(), 0
    with (folder / "output.txt").open("wb") as output:
        process = psutil.Popen([sys.executable, *arguments], cwd=folder, stdout=output, stderr=subprocess.STDOUT)
        while process.poll() is None:
            with contextlib.suppress(psutil.NoSuchProcess):
                peak = max(peak, sum(map(_pss, [process, *process.children(recursive=True)])))
            if time.monotonic() - started > _LIMIT_SECONDS:
                for each in [*process.children(recursive=True), process]:
                    each.kill()
            time.sleep(_LOOK_SECONDS)
    return Measured(process.returncode, time.monotonic() - started, peak / 2**20)


def row_of(name: str, folder: Path) -> str:
    """Run a case by itself and under the tool; return its row of the table."""
    case = CASES[name]
    (folder / "refusing.py").write_text(_BACKEND.replace("MESSAGE", case.message))
    (folder / "failing.py").write_text(case.script)
    own = measure(["failing.py"], folder)
    ran = measure(["-m", "minifier", "run", "--out", "out", "failing.py"], folder)
    result = folder / "out" / "result.json"
    data = json.loads(result.read_text(encoding="utf-8")) if result.exists() else {}
    times = ran.seconds / own.seconds
    memory = ran.mebibytes / own.mebibytes
    cells = (
        case.what,
        ran.status,
        data.get("ops_after", ""),
        data.get("probes", {}).get("total", ""),
        f"{own.mebibytes:,.0f}",
        f"{memory:.2f}",
        f"{own.seconds:.1f}",
        f"{times:.1f}",
    )
    return "| " + " | ".join(map(str, cells)) + " |"


HEAD = """\
| case | exit | ops | probes | script, MiB | minify / script | script, s | minify / script |
| --- | --- | --- | --- | --- | --- | --- | --- |"""


@click.command(help=__doc__)
@click.argument("names", nargs=-1)
@click.option("--write", is_flag=True, help="Replace the table in notes/scale.md.")
def main(names: tuple[str, ...], write: bool) -> None:
    """Print a row for each case."""
    for name in names:
        if name not in CASES:
            raise click.BadParameter(f"{name} is none of {', '.join(CASES)}")
    rows = []
    click.echo(HEAD)
    for name in names or CASES:
        with tempfile.TemporaryDirectory(prefix="minify-scale-") as folder:
            rows.append(row_of(name, Path(folder)))
        click.echo(rows[-1])
    if write:
        text = TABLE.read_text(encoding="utf-8")
        before, _, rest = text.partition(HEAD)
        after = rest[rest.index("\n\n") :]
        TABLE.write_text(before + "\n".join([HEAD, *rows]) + after, encoding="utf-8")


if __name__ == "__main__":
    main()
