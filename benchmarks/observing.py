"""Running scripts in interpreters of their own, and reading what they showed."""

from __future__ import annotations

import ast
import contextlib
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_CHANGE_TORCH = ("TORCH", "PYTORCH", "AOT_", "TRITON")


@dataclass(frozen=True, slots=True)
class Ran:
    """A command that was run: wall seconds, what it printed, whether it was stopped at the limit, and the largest
    resident memory of any of its processes, in MiB (getrusage's; of those that it waited for)."""

    seconds: float
    output: str
    status: int | None
    mebibytes: float = 0.0

    @property
    def unfinished(self) -> bool:
        """Whether it was stopped at the time limit."""
        return self.status is None


@dataclass(frozen=True, slots=True)
class Shown:
    """An exception as a traceback ends: its type without the module, and its first line without numbers."""

    type: str
    message: str

    def __str__(self) -> str:
        return f"{self.type}: {self.message}" if self.message else self.type


def run_python(
    arguments: Sequence[str | Path],
    folder: Path,
    limit: float,
    path: Sequence[Path] = (),
    variables: Mapping[str, str] | None = None,
) -> Ran:
    """Runs `python ARGUMENTS...` in `folder`, with `path` importable, for at most `limit` seconds.

    The environment is this process's without variables that change torch. Whatever the command started
    ends with it.
    """
    environment = {k: v for k, v in os.environ.items() if not k.startswith(_CHANGE_TORCH)}
    environment.update(variables or {})
    entries = [*map(str, path), *filter(None, [environment.pop("PYTHONPATH", "")])]
    if entries:
        environment["PYTHONPATH"] = os.pathsep.join(entries)
    log = folder / "output.txt"
    started = time.monotonic()
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, *map(str, arguments)],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code, mebibytes = _wait(process.pid, started + limit)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.returncode = 0  # it has been waited for
    return Ran(time.monotonic() - started, log.read_text(errors="replace"), code, mebibytes)


def _wait(pid: int, until: float) -> tuple[int | None, float]:
    """(exit status, None if it had to be killed, peak MiB)."""
    while True:
        found, code, usage = os.wait4(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(code), usage.ru_maxrss / 1024
        if time.monotonic() > until:
            os.killpg(pid, signal.SIGKILL)
            return None, os.wait4(pid, 0)[2].ru_maxrss / 1024
        time.sleep(0.02)


def error_in(output: str) -> Shown | None:
    """The exception that the last traceback in `output` ends with; the backend's own, Dynamo's wrapper off."""
    _, found, rest = output.rpartition("Traceback (most recent call last):\n")
    lines = [line for line in rest.splitlines() if line and not line.startswith(" ")]
    if not found or not lines:
        return None
    if re.match(r"[\w.]*BackendCompilerFailed: .* raised:$", lines[0]) and len(lines) > 1:
        lines = lines[1:]
    name, _, message = lines[0].partition(": ")
    return Shown(name.rpartition(".")[2], re.sub(r"\d+", "#", message.strip()))


def imports_of(script: Path) -> tuple[str, ...]:
    """Import statements for every module that the script imports, besides torch and the standard library."""
    modules: dict[str, None] = {}
    for node in ast.parse(script.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            modules.update(dict.fromkeys(alias.name for alias in node.names))
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            modules[node.module] = None
    known = {"torch", *sys.stdlib_module_names}
    return tuple(f"import {name}" for name in modules if name.partition(".")[0] not in known)


def ops_in_repro(source: str) -> int:
    """How many ops the graph in a script of torch's minifier has: statements of `Repro.forward` that compute.

    Reading an attribute of the module, and the `= None` that ends a value's life, compute nothing.
    """
    classes = [n for n in ast.parse(source).body if isinstance(n, ast.ClassDef) and n.name == "Repro"]
    forward = [n for c in classes for n in c.body if isinstance(n, ast.FunctionDef) and n.name == "forward"]
    if not forward:
        raise ValueError("no class Repro with a forward in the script")
    return sum(
        isinstance(statement, ast.AugAssign)
        or (isinstance(statement, (ast.Assign, ast.Expr)) and _computes(statement.value))
        for statement in forward[0].body
    )


def elements_in_repro(source: str) -> int | None:
    """How many elements the tensor inputs of a script of torch's minifier have together; None if it tells none."""
    shapes = re.findall(r"reader\.tensor\(\w+, \(([^)]*)\)", source)
    return sum(math.prod(int(size) for size in shape.split(",") if size.strip()) for shape in shapes) or None


def lines_in(source: str) -> int:
    """Lines that are not blank."""
    return sum(bool(line.strip()) for line in source.splitlines())


def _computes(value: ast.expr) -> bool:
    while isinstance(value, ast.Attribute):
        value = value.value
    return not isinstance(value, (ast.Constant, ast.Name))
