"""Probes each candidate in a child, and turns the child's end into a verdict."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from minifier.data.case import Case
from minifier.data.case.serial import unpack
from minifier.data.failure import Difference, Failure, Fingerprint, Kind, Stage, Verdict, matches, same
from minifier.data.failure.evidence import exit_status, failure_of_differences, fatal_signal, hang, no_memory
from minifier.data.failure.fingerprint import NO_NODES, aborted_without_memory, failure_of, of_line, with_native
from minifier.data.failure.likeness import is_alike
from minifier.data.torch_names import INDUCTOR_MODULES
from minifier.process.child import signal_name
from minifier.reduction.probe.children import AHEAD, COMPILED, ChildEnd, Job, Limits, run_children
from minifier.reduction.probe.evaluate import evaluate
from minifier.reduction.probe.prepared_case import PreparedCase
from minifier.torch_side.torch_private import dynamo, inductor


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict, and the failure seen, if any; `fault` is a traceback of the tool's own code."""

    verdict: Verdict
    seconds: float
    failure: Failure | None = None
    fault: str = ""

    @property
    def ran_out_of_time(self) -> bool:
        """Whether the candidate gave no answer within its time limit, and the sought failure is no hang."""
        timed_out = self.failure is not None and self.failure.fingerprint.kind is Kind.TIMEOUT
        return self.verdict is Verdict.UNRESOLVED and timed_out


def seen(ended: ChildEnd, nodes: Mapping[str, str] = NO_NODES, sought: Fingerprint | None = None) -> Failure | None:
    """Return the failure that a child showed, or None for a pass; the sought difference among several."""
    failure = _seen(ended, nodes, sought)
    return with_native(failure, ended.written) if failure is not None else None


def _seen(ended: ChildEnd, nodes: Mapping[str, str], sought: Fingerprint | None) -> Failure | None:
    stage = Stage.COMPILE if ended.stage in (None, AHEAD) else Stage(ended.stage)
    if ended.timed_out:
        return hang(stage, ended.seconds, ended.output)
    if ended.exhausted or (ended.signal == signal.SIGABRT and aborted_without_memory(sought, ended.written)):
        return no_memory(stage, ended.output)
    if ended.signal is not None:
        return fatal_signal(stage, signal_name(ended.signal), ended.output)
    if ended.result is None:
        return exit_status(stage, ended.status, ended.output)
    if ended.result["status"] == "pass":
        return None
    if "differences" in ended.result:
        return failure_of_differences(unpack(tuple[Difference, ...], ended.result["differences"]), sought)
    stage = Stage(ended.result.get("stage", Stage.RUN.value))
    return failure_of(stage, ended.result["links"], ended.result["traceback"], nodes)


def _judge_lines(
    lines: Sequence[tuple[str, str]],
    seconds: float,
    sought: Fingerprint,
    nodes: Mapping[str, str],
    match_log: str | None,
) -> Judged:
    """Judge a silent fallback, which shows as a line in a log."""
    for stage, line in lines:
        fingerprint = of_line(Stage(stage), line, nodes)
        if fingerprint.stage is sought.stage and (
            re.search(match_log, line) if match_log is not None else same(sought, fingerprint)
        ):
            return Judged(Verdict.SAME, seconds, Failure(fingerprint, Kind.SILENT_FALLBACK.value, line))
    return Judged(Verdict.PASS, seconds)


def judge(
    ended: ChildEnd,
    sought: Fingerprint,
    nodes: Mapping[str, str] = NO_NODES,
    match: str | None = None,
    match_log: str | None = None,
    first: Failure | None = None,
) -> Judged:
    """Judge how a child ended. Without `match`, the sought failure must also be like `first`, the first sighting.
    Other timeouts, lack of memory, and SIGKILL (the kernel's reaction to memory use) leave the verdict open."""
    if ended.fault:
        return Judged(Verdict.UNRESOLVED, ended.seconds, fault=ended.fault)
    if ended.result is None and ended.stage == AHEAD:  # the Case's own graph was not reached
        return Judged(Verdict.INVALID, ended.seconds)
    if ended.result is not None and ended.result["status"] == "invalid":
        return Judged(Verdict.INVALID, ended.seconds, seen(ended, nodes) if ended.result["links"] else None)
    if ended.result is not None and ended.result["status"] == "said":
        return _judge_lines(ended.result["lines"], ended.seconds, sought, nodes, match_log)
    failure = seen(ended, nodes, sought)
    if failure is None:
        return Judged(Verdict.PASS, ended.seconds)
    is_same = matches(sought, failure, match) if match is not None else same(sought, failure.fingerprint)
    if is_same and (first is None or match is not None or is_alike(first, failure)):
        return Judged(Verdict.SAME, ended.seconds, failure)
    if failure.fingerprint.kind in (Kind.TIMEOUT, Kind.OUT_OF_MEMORY) or ended.signal == signal.SIGKILL:
        return Judged(Verdict.UNRESOLVED, ended.seconds, failure)
    return Judged(Verdict.OTHER, ended.seconds, failure)


def last_stage(failure: Failure) -> Stage:
    """Return a probe's last stage: the failure's, or the comparison where eager raises: no result is right there."""
    return failure.fingerprint.stage if failure.missing_exception is None else Stage.COMPARE


_KILLED = (Kind.TIMEOUT, Kind.SIGNAL, Kind.EXIT, Kind.OUT_OF_MEMORY)


class Prober(Protocol):
    """Builds and runs candidates, all at once, each in a process that may die."""

    def probe(self, cases: Sequence[Case], until: Stage, limits: Limits) -> list[ChildEnd]:
        """Return how each candidate ended; stages after `until` may be left out."""


MakeProber = Callable[[PreparedCase, Path], Prober]


def prepare_cache(prepared: PreparedCase, scratch: Path) -> None:
    """Make the first cache of compiled code for the probes of a Case; import inductor if it is the Case's backend."""
    # A killed script may have left a half-written library.
    killed = prepared.case.failure.fingerprint.kind in _KILLED
    inductor.link_libraries(scratch / COMPILED, checks_only=killed)
    if prepared.case.backend.name == dynamo.INDUCTOR and not prepared.imports_in_child:
        prepared.preload(INDUCTOR_MODULES)


class ForkingProber:
    """Forks a child for each candidate. Preloads the modules of torch that a child imported."""

    def __init__(self, prepared: PreparedCase, scratch: Path) -> None:
        self.prepared, self.scratch = prepared, scratch
        prepare_cache(prepared, scratch)

    def probe(self, cases: Sequence[Case], until: Stage, limits: Limits) -> list[ChildEnd]:
        """Return how each candidate ended; stages after `until` may be left out."""

        def job(case: Case) -> Job:
            return lambda: evaluate(self.prepared, case, until)

        ended = run_children([job(case) for case in cases], limits, self.scratch)
        if not self.prepared.imports_in_child:
            for end in ended:
                self.prepared.preload(end.loaded)
        return ended
