"""How well a hunt tells faults apart: programs with one planted fault each, and what `minify hunt` makes of them.

`python benchmarks/many_faults.py --programs 1000`; see README.md beside it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parents[1]
CASES = ROOT / "benchmarks" / "cases"


@click.command()
@click.option("--programs", default=1000, help="Programs with a fault.")
@click.option("--seconds", default=3600, help="--time of the hunt.")
@click.option("--out", default="minify-out/many-faults", help="Folder of the hunt.")
def main(programs: int, seconds: int, out: str) -> None:
    """Hunt through the planted backend, and say which failures each fault ended as."""
    began = time.monotonic()
    command = [sys.executable, "-m", "minifier", "hunt", "--backend", "many_faults", "--import", "pocket.many_faults"]
    command += ["--time", str(seconds), "--timeout", "20", "--out", out, "pocket.many_faults:programs"]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{CASES}", "MANY_FAULTS": str(programs)}
    subprocess.run(command, env=environment, check=False)
    lines = [json.loads(line) for line in Path(out, "results.jsonl").read_text(encoding="utf-8").splitlines()]
    answers = Counter(line["answer"] for line in lines if not line["behind"])
    failures = json.loads(Path(out, "summary.json").read_text(encoding="utf-8"))["failures"]
    found = defaultdict(list)
    for failure in failures:
        faults = Counter(subject.partition(" ")[0] for subject in failure["subjects"])
        found[tuple(sorted(faults))].append((failure["what"], failure["status"], failure["programs"], dict(faults)))
    for faults, ended in sorted(found.items()):
        click.echo(f"{' + '.join(faults)}: {ended}")
    named = Counter(fault for faults, ended in found.items() for fault in faults for _ in ended)
    whole = sum(len(faults) == 1 and named[faults[0]] == 1 for faults in found)
    click.echo(f"{dict(answers)}; {len(failures)} failures, {whole} faults are one failure of their own")
    click.echo(f"{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
