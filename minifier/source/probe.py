"""Probe source texts: run each as a script in a child process."""

from __future__ import annotations

import ast
import itertools
import json
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from minifier.failure import Fingerprint, Verdict
from minifier.failure.observed import describe, text
from minifier.fx.script_definitions import define
from minifier.probe.children import ChildEnd, run_children
from minifier.probe.life import Limits, imports_told
from minifier.probe.prepared_case import preload
from minifier.probe.verdicts import Judged, judge
from minifier.process.progress import Phase, Progress, counted
from minifier.source.missing_names import missing_names

_SEED = 0
_FIRST_TIMEOUT_SECONDS = 3600.0  # before any run time is known: the whole script ended when it was captured
_MIN_TIMEOUT_SECONDS = 5.0
TIMEOUT_FACTOR = 10  # of the slowest failing run


def run_source(source: str, *, compiled: bool = True) -> dict[str, Any]:
    """Run the source as `__main__`, and return its exception or {"status": "pass"}.

    If the source exits with a non-zero status, this process ends with the same status. `compiled=False` makes
    torch.compile run everything in eager mode.
    """
    with imports_told():
        result = _run(source, compiled=compiled)
    if result["status"] == "exit":
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(result["code"])
    return result


def in_eager(source: str) -> str:
    """Return the script with a first statement that makes torch.compile run everything in eager mode."""
    return with_first(source, 'import torch; torch.compiler.set_stance("force_eager")\n')


def with_first(source: str, statements: str) -> str:
    """Return the script with these statements ahead of all but its docstring and its imports from __future__."""
    return _with_line(source, statements, _comes_first)


def seeded(source: str) -> str:
    """Insert the seed of the probes after the script's first imports; no change without `import torch`.

    A reduced script may have lost its own seed, and fail for some random numbers only.
    """
    if not any(isinstance(node, ast.Import) and "torch" in map(_name, node.names) for node in ast.parse(source).body):
        return source
    return _with_line(source, f"\ntorch.manual_seed({_SEED})\n", lambda node: _comes_first(node) or _is_import(node))


def _name(alias: ast.alias) -> str:
    return alias.asname or alias.name


def _is_import(node: ast.stmt) -> bool:
    return isinstance(node, (ast.Import, ast.ImportFrom))


def _with_line(source: str, line: str, is_ahead: Callable[[ast.stmt], bool]) -> str:
    """Insert the line after the first statements of the source, as long as `is_ahead` holds for them."""
    ahead = list(itertools.takewhile(is_ahead, ast.parse(source).body))
    after = ahead[-1].end_lineno if ahead else 0
    lines = source.splitlines(keepends=True)
    return "".join([*lines[:after], line, *lines[after:]])


def _comes_first(node: ast.stmt) -> bool:
    """Return whether the statement is a docstring, or an import from __future__."""
    if isinstance(node, ast.ImportFrom):
        return node.module == "__future__"
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _run(source: str, *, compiled: bool) -> dict[str, Any]:
    sys.argv = ["repro.py"]
    if not compiled:
        torch.compiler.set_stance("force_eager")
    torch.manual_seed(_SEED)  # the forks of one process would all begin with the numbers of that process
    try:
        define(source)
    except SystemExit as exit_:
        code = exit_.code & 0xFF if isinstance(exit_.code, int) else int(exit_.code is not None)
        return {"status": "exit", "code": code} if code else {"status": "pass"}
    except BaseException as error:  # noqa: BLE001 - any exception is a result
        return {"status": "fail", "stage": "compile", "links": describe(error), "traceback": text(error)}
    return {"status": "pass"}


def passed(end: ChildEnd) -> bool:
    """Return whether a run of a source ended without an exception, and before its time limit."""
    return end.result is not None and end.result["status"] == "pass"


@dataclass
class SourceLab:
    """Probes each source text once, in a child process. The file `journal` gets a line for each probe.

    A definition whose text is in `whole` is kept unchanged or removed as a whole. `missing` are the names that the
    whole script reads and does not bind.
    """

    scratch: Path
    journal: Path
    sought: Fingerprint
    match: str | None = None
    memory: int | None = None
    timeout: float | None = None
    workers: int = 1
    whole: tuple[str, ...] = ()
    missing: frozenset[str] = frozenset()
    phase: str = "check"
    show: Callable[[Progress], None] = lambda _: None
    counts: dict[Verdict, int] = field(default_factory=lambda: dict.fromkeys(Verdict, 0))
    _fails: dict[str, bool] = field(default_factory=dict)  # by source text: it shows the sought failure
    slowest_seconds: float = 0.0  # of the runs that showed the failure
    _fewest_lines: int | None = None

    @property
    def total(self) -> int:
        """The number of probes."""
        return sum(self.counts.values())

    def _limits(self) -> Limits:
        expected = TIMEOUT_FACTOR * self.slowest_seconds if self.slowest_seconds else _FIRST_TIMEOUT_SECONDS
        return Limits(self.timeout or max(_MIN_TIMEOUT_SECONDS, expected), self.memory)

    def run(self, source: str, *, compiled: bool = True) -> ChildEnd:
        """Run the source in a child without counting a probe; load here the modules that the child loaded."""
        (end,) = run_children([lambda: run_source(source, compiled=compiled)], self._limits(), self.scratch)
        preload(end.loaded)
        return end

    def holds(self, sources: Sequence[str]) -> list[bool]:
        """Return for each text whether the sought failure shows, and eager mode passes.

        New texts are probed in parallel. Texts that are not Python are not probed, nor texts that read an unbound name
        which is not in `missing`: they cannot pass in eager mode.
        """
        texts = dict.fromkeys(sources)
        self._fails |= {text: False for text in texts if text not in self._fails and not self._can_pass(text)}
        new = [text for text in texts if text not in self._fails]
        judged = [judge(end, self.sought, (), self.match) for end in self._run_all(new, compiled=True)]
        failing = [source for source, each in zip(new, judged, strict=True) if each.verdict is Verdict.SAME]
        controls = dict(zip(failing, self._run_all(failing, compiled=False), strict=True))
        for source, each in zip(new, judged, strict=True):
            fails_in_eager = source in controls and not passed(controls[source])
            self._fails[source] = each.verdict is Verdict.SAME and not fails_in_eager
            self._record(source, replace(each, verdict=Verdict.INVALID) if fails_in_eager else each)
        return [self._fails[source] for source in sources]

    def _can_pass(self, source: str) -> bool:
        try:
            return missing_names(source) <= self.missing
        except (SyntaxError, ValueError):
            return False

    def _run_all(self, sources: Sequence[str], *, compiled: bool) -> list[ChildEnd]:
        jobs = [lambda source=source: run_source(source, compiled=compiled) for source in sources]
        return run_children(jobs, self._limits(), self.scratch) if jobs else []

    def _record(self, source: str, judged: Judged) -> None:
        self.counts[judged.verdict] += 1
        verdict, seconds, lines = judged.verdict.value, judged.seconds, len(source.splitlines())
        if judged.verdict is Verdict.SAME:
            self.slowest_seconds = max(self.slowest_seconds, seconds)
            self._fewest_lines = min(lines, self._fewest_lines or lines)
        probe = f"{self.phase}, {counted(lines, 'line')}: {verdict} in {seconds:.2f} s"
        size = self._fewest_lines
        self.show(Progress(Phase.REDUCING, step=self.phase, size=size, unit="line", probes=self.total, probe=probe))
        entry = {"phase": self.phase, "lines": lines, "verdict": verdict, "seconds": round(seconds, 4)}
        with self.journal.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")
