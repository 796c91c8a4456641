"""A lab that runs source texts in this process, with torch.compile replaced by a mark on the calls that it covers.

A run takes a millisecond instead of a process.
"""

from __future__ import annotations

import contextlib
import functools
import io
import random
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from minifier import search
from minifier.capturing.slicing.module_statements import missing_names
from minifier.data.failure import Verdict
from minifier.data.failure.observed import describe
from minifier.reduction.probe.children import ChildEnd
from minifier.repro.source.conditions import BACKENDS, CALLS, SourceRun
from minifier.repro.source.frozen import Frozen
from minifier.repro.source.reduce import ReducedSource, reduce_source
from minifier.torch_side.fx.script_objects import FILE
from tests.source.generated_scripts import DECOY, MARKED, Call, Fault

_MAX_RUN_SECONDS = 1.0  # of processor time; an edit may make a loop endless


class Refused(Exception):
    """What the replaced torch.compile raises."""


class InProcessLab:
    """Runs source texts in this process, as `SourceLab` does in children, and counts them."""

    def __init__(self, text: str, fault: Fault) -> None:
        self.fault, self._condition = fault, Frozen(_told(text, fault))
        self.frozen = self._condition.frozen
        self.workers, self.total, self.phase = 1, 0, "check"
        self.moved: Sequence[tuple[str, str]] = ()
        self._verdicts: dict[str, Verdict] = {}

    def holds(self, sources: Sequence[str]) -> list[bool]:
        """Return for each text whether the fault shows in compiled code, and the text passes in eager mode."""
        for text in sources:
            if text not in self._verdicts:
                self._verdicts[text] = self._judged(text)
        return [self._verdicts[text] is Verdict.SAME for text in sources]

    def verdict(self, source: str) -> Verdict | None:
        """Return the verdict on a text; None if `holds` was not asked about it."""
        return self._verdicts.get(source)

    def warn(self, sentence: str, error: Exception) -> None:
        """Raise: no pass meets an error in a generated script."""
        raise AssertionError(sentence) from error

    def _judged(self, text: str) -> Verdict:
        try:
            if missing_names(text) or not self._condition.may_hold(text):
                return Verdict.INVALID
        except (SyntaxError, ValueError):
            return Verdict.INVALID
        self.total += 1
        if outcome(text, None):
            return Verdict.INVALID
        shown = outcome(text, self.fault)
        is_same = shown == self.fault.error and self._condition.holds(_told(text, self.fault))
        return Verdict.SAME if is_same else Verdict.OTHER if shown else Verdict.PASS


def outcome(text: str, fault: Fault | None) -> str:
    """Run the script; return its exception as in the last line of a traceback, or ""."""
    _, error = run(text, fault)
    return "" if error is None else f"{type(error).__name__}: {error}"


def run(
    text: str, fault: Fault | None, told: dict[str, list[Any]] | None = None
) -> tuple[list[Call], BaseException | None]:
    """Run the script; return the calls of marked functions in compiled code, and the script's exception.

    Without a fault torch.compile does nothing. `told` gets what a watch of backends tells.
    """
    calls: list[Call] = []
    random.seed(0)
    torch.manual_seed(0)
    arguments = sys.argv
    sys.argv = ["repro.py"]
    try:
        with (
            _patched(calls, fault, {} if told is None else told),
            contextlib.redirect_stdout(io.StringIO()),
            _limited(),
        ):
            exec(compile(text, FILE, "exec"), {"__name__": "__main__"})
    except BaseException as error:
        return calls, error
    finally:
        sys.argv = arguments
    return calls, None


@dataclass(frozen=True)
class _Graph:
    """What a backend is called with."""

    calls: tuple[Call, ...]


@contextlib.contextmanager
def _patched(calls: list[Call], fault: Fault | None, told: dict[str, list[Any]]) -> Iterator[None]:
    """Replace torch.compile and the marked functions."""
    depth = [0]

    def compile_(model: Callable[..., Any], *, backend: object = "inductor") -> Callable[..., Any]:
        if not callable(model) or not (callable(backend) or isinstance(backend, str)):
            raise TypeError("nothing to compile, or no backend")

        @functools.wraps(model)
        def compiled(*args: Any, **kwargs: Any) -> Any:
            if not depth[0]:
                calls.clear()
                told.setdefault(CALLS, []).append(_stack(sys._getframe(1)))
                told.setdefault(BACKENDS, []).append(_place(backend))
            depth[0] += 1
            try:
                result = model(*args, **kwargs)
            finally:
                depth[0] -= 1
            if callable(backend) and fault is not None:
                backend(_Graph(tuple(calls)), args)
            return result

        return compiled

    def marked(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            if depth[0] and fault is not None:
                codes, frame = [], sys._getframe(1)
                while frame is not None and frame.f_code.co_filename == FILE:
                    codes.append(frame.f_code)
                    frame = frame.f_back  # type: ignore[assignment]
                calls.append(Call(name, args, tuple(codes) or (call.__code__,), torch.is_grad_enabled()))
                if name == DECOY or (fault.fails(calls) and not fault.is_wrong and not fault.backend):
                    raise Refused(name)
                if fault.is_wrong and fault.fails([calls[-1]]):
                    return result + 1
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


def _stack(frame: Any) -> list[tuple[str, int]]:
    above = [] if frame is None else _stack(frame.f_back)
    return [*above, (frame.f_code.co_name, frame.f_lineno)] if frame and frame.f_code.co_filename == FILE else above


def _place(backend: object) -> tuple[str, str, int]:
    code = getattr(backend, "__code__", None)
    return ("", "", 0) if code is None else (code.co_name, code.co_filename, code.co_firstlineno)


def _told(text: str, fault: Fault) -> SourceRun:
    """Return a run as a child tells it."""
    told: dict[str, list[Any]] = {}
    _, error = run(text, fault, told)
    return SourceRun(text, ChildEnd({"status": "fail", "links": describe(error)}, 1.0, told=told))


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
    lab = InProcessLab(text, fault)
    return reduce_source(lab, text, traced_lines(text, fault), search.Budget()), lab


def traced_lines(text: str, fault: Fault) -> list[int]:
    """Return the script's lines in the traceback of its failure, innermost last."""
    _, error = run(text, fault)
    assert error is not None
    return [
        frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == FILE and frame.lineno
    ]
