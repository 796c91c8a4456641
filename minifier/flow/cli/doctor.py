"""`minify doctor`: print what works on this machine with this torch, and what does not."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from minifier.errors import ExitCode
from minifier.flow.cli.listing import print_table
from minifier.flow.doctor import Findings, examine


def doctor(as_json: bool) -> int:
    """Print the findings; return the exit code: 2 if nothing works here."""
    findings = examine(Path.cwd())
    if as_json:
        print(json.dumps({"version": 1, **asdict(findings)}))
    else:
        _print(findings)
    return int(ExitCode.USAGE if findings.problem else ExitCode.REDUCED)


def _print(findings: Findings) -> None:
    facts = {
        "torch": f"{findings.torch} ({findings.tested})",
        "Python": findings.python,
        "backends": f"{len(findings.backends)} found; `minify backends` lists them",
        **findings.extras,
        **findings.limits,
    }
    width = max(map(len, facts)) + 2
    for name, fact in facts.items():
        print(f"{name:{width}}{fact}")
    lost = [row for row in findings.interfaces if row.loses]
    if lost:
        print_table(("private interface of torch", "state", "lost"), [(r.interface, r.state, r.loses) for r in lost])
    works = len(findings.interfaces) - len(lost)
    count = f"{works} of the {len(findings.interfaces)} names of torch that the tool relies on are here."
    print(findings.problem or count)
