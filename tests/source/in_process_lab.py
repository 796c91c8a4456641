"""A lab that runs source texts in this process, with torch.compile replaced by a mark on the calls that it covers.

A run takes a millisecond instead of a process. `python -m tests.source.in_process_lab 500` reduces as many generated
scripts.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from minifier import search
from minifier.source.missing_names import missing_names
from minifier.source.reduce import ReducedSource, reduce_source
from minifier.source.tree import Tree
from tests.source.generated_scripts import FAULTS, MARKED, Call, Fault, Script

_MAX_RUN_SECONDS = 1.0  # of processor time; an edit may make a loop endless


class Refused(Exception):
    """What the replaced torch.compile raises."""


class InProcessLab:
    """Runs source texts in this process, as `SourceLab` does in children, and counts them."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.whole: tuple[str, ...] = ()
        self.workers, self.total, self.phase = 1, 0, "check"
        self._fails: dict[str, bool] = {}

    def holds(self, sources: Sequence[str]) -> list[bool]:
        """Return for each text whether the fault shows in compiled code, and the text passes in eager mode."""
        for text in sources:
            if text not in self._fails:
                self._fails[text] = self._shows(text)
        return [self._fails[text] for text in sources]

    def _shows(self, text: str) -> bool:
        try:
            if missing_names(text):
                return False
        except (SyntaxError, ValueError):
            return False
        self.total += 1
        return outcome(text, self.fault) == "Refused" and outcome(text, None) == ""


def outcome(text: str, fault: Fault | None) -> str:
    """Run the script; return the name of the exception, or "". Without a fault torch.compile does nothing."""
    calls: list[Call] = []
    with _patched(calls, fault), contextlib.redirect_stdout(io.StringIO()), _limited():
        try:
            exec(compile(text, "<script>", "exec"), {"__name__": "__main__"})
        except BaseException as error:
            return type(error).__name__
    return ""


@contextlib.contextmanager
def _patched(calls: list[Call], fault: Fault | None) -> Iterator[None]:
    """Replace torch.compile and the marked functions."""
    depth = [0]

    def compile_(model: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        def compiled(*args: Any, **kwargs: Any) -> Any:
            if not depth[0]:
                calls.clear()
            depth[0] += 1
            try:
                return model(*args, **kwargs)
            finally:
                depth[0] -= 1

        return compiled

    def marked(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            if depth[0] and fault is not None:
                codes, frame = [], sys._getframe(1)
                while frame is not None and frame.f_code.co_filename == "<script>":
                    codes.append(frame.f_code)
                    frame = frame.f_back  # type: ignore[assignment]
                calls.append(Call(name, args, tuple(codes) or (call.__code__,), torch.is_grad_enabled()))
                if fault.fails(calls):
                    raise Refused(name)
            return result

        return call

    places = [(torch.special if name == "erfcx" else torch, name) for name in MARKED]
    saved = [(place, name, getattr(place, name)) for place, name in [*places, (torch, "compile")]]
    try:
        for place, name in places:
            setattr(place, name, marked(name, getattr(place, name)))
        torch.compile = compile_  # type: ignore[assignment]
        with torch.enable_grad():
            yield
    finally:
        for place, name, value in saved:
            setattr(place, name, value)


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    """Raise TimeoutError in the block once it has computed too long."""

    def raise_(number: int, frame: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGVTALRM, raise_)
    signal.setitimer(signal.ITIMER_VIRTUAL, _MAX_RUN_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def reduced(text: str, fault: Fault) -> tuple[ReducedSource, InProcessLab]:
    """Reduce a failing script in this process."""
    lab = InProcessLab(fault)
    return reduce_source(lab, text, (), search.Budget()), lab  # type: ignore[arg-type]


def smaller_set(text: str, fault: Fault, than: int) -> str | None:
    """Return the script with fewer than so many of its statements that shows the fault, by trying all their sets."""
    tree, lab = Tree(text), InProcessLab(fault)
    numbers = range(len(tree.statements))
    sets = (tree.code(chosen) for count in range(1, than) for chosen in itertools.combinations(numbers, count))
    return next((code for code in sets if lab.holds([code])[0]), None)


def main(count: int, first: int = 0) -> None:
    """Reduce so many scripts; print one line for each, and the errors."""
    errors = large = 0
    for seed in range(first, first + count):
        fault = FAULTS[seed % len(FAULTS)]
        text = Script(seed, fault).text()
        assert outcome(text, fault) == "Refused" and not outcome(text, None), (seed, outcome(text, None), text)
        began = time.process_time()
        try:
            result, lab = reduced(text, fault)
        except Exception:
            errors += 1
            print(seed, fault.name, "ERROR", traceback.format_exc(), flush=True)
            continue
        is_large = result.statements > fault.most or not all(need in result.source for need in fault.needs)
        large += is_large
        before, seconds = len(Tree(text).statements), time.process_time() - began
        print(f"{seed} {fault.name}: {before} -> {result.statements} statements, {lab.total} probes, {seconds:.1f} s")
        if is_large:
            print(result.source, flush=True)
    print(f"{count} scripts, {errors} errors, {large} larger than a person's")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
