"""Puts a mutant in the place of a function, and runs children that do so, a few at a time."""

from __future__ import annotations

import gc
import os
import resource
import signal
import sys
import time
import types
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from mutants import Mutant
from mutation_plugins import NotTried

ROOT = Path(__file__).resolve().parents[1]
MAX_GROWTH_BYTES = 4 << 30  # of a child's address space, beyond what it was forked with
NOT_TRIED = 3  # the exit status of a child whose tests ran without the mutant
WALL_SECONDS = 120.0  # for a child that waits and takes no processor time


def module_name(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _function(module: types.ModuleType, dotted: str) -> types.FunctionType | None:
    """The function of this name; None if it cannot be told which (it is wrapped in something unknown)."""
    found: Any = module
    for name in dotted.split("."):
        found = vars(found).get(name)
    for attribute in ("fget", "func", "__func__", "__wrapped__"):
        found = getattr(found, attribute, found)
    return found if isinstance(found, types.FunctionType) and found.__module__ == module.__name__ else None


def _code(code: types.CodeType, dotted: str) -> types.CodeType:
    for name in dotted.split("."):
        code = next(each for each in code.co_consts if isinstance(each, types.CodeType) and each.co_name == name)
    return code


def can_be_swapped(mutant: Mutant) -> bool:
    """Whether the mutant is inside a function whose code can be replaced in a module that is imported already."""
    module = sys.modules[module_name(mutant.path)]
    return bool(mutant.function) and _function(module, mutant.function) is not None


def swap(mutant: Mutant, text: str) -> None:
    """Gives the function the mutant's code."""
    function = _function(sys.modules[module_name(mutant.path)], mutant.function)
    assert function is not None
    code = _code(compile(mutant.source(text), str(ROOT / mutant.path), "exec"), mutant.function)
    function.__code__ = code


def in_fork(work: Callable[[], bool], cpu_seconds: float | None = None, quiet: bool = True) -> int:
    """Forks a child that exits with 0 if `work()` is true, else 1; the child's process id."""
    sys.stdout.flush()
    gc.freeze()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        if quiet:
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.dup2(nowhere, 1)
            os.dup2(nowhere, 2)
        if cpu_seconds is not None:
            resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_seconds) + 1, int(cpu_seconds) + 2))
            pages = int(Path("/proc/self/statm").read_text().split()[0])
            growth = pages * resource.getpagesize() + MAX_GROWTH_BYTES
            resource.setrlimit(resource.RLIMIT_AS, (growth, growth))
        code = 0 if work() else 1
    except NotTried:
        code = NOT_TRIED
    finally:
        os._exit(code)


def run_all(jobs: Iterable[tuple[Mutant, Callable[[], int]]], workers: int) -> Iterator[tuple[Mutant, int]]:
    """Starts the jobs, some at a time; yields each mutant with its child's wait status."""
    running: dict[int, tuple[Mutant, float]] = {}
    left = iter(jobs)
    while True:
        while len(running) < workers and (job := next(left, None)) is not None:
            running[job[1]()] = (job[0], time.monotonic() + WALL_SECONDS)
        if not running:
            return
        for pid, (mutant, deadline) in list(running.items()):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                del running[pid]
                yield mutant, status
            elif time.monotonic() > deadline:
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.002)


def wait_for(pid: int) -> None:
    _, status = os.waitpid(pid, 0)
    if status:
        sys.exit(f"a child ended with status {status}")
