"""A prober that answers in this process, by a function of the Case, and the ends of children that it can report."""

from __future__ import annotations

import math
import signal
import traceback
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from torch._dynamo.output_graph import OutputGraph

from minifier.data.case import Case
from minifier.data.case.serial import pack
from minifier.data.failure import Aspect, Difference, Failure, Stage
from minifier.reduction.probe.children import ChildEnd, Job, Limits
from minifier.reduction.probe.evaluate import evaluate
from minifier.reduction.probe.prepared_case import PreparedCase
from minifier.reduction.probe.verdicts import seen

Fault = Callable[[Case], ChildEnd]
Condition = Callable[[Case], bool]
CALL_USER_COMPILER = OutputGraph.call_user_compiler


def passes(seconds: float = 0.01) -> ChildEnd:
    return ChildEnd({"status": "pass"}, seconds, status=0)


def raises(
    message: str = "no lowering", kind: str = "RuntimeError", stage: Stage = Stage.COMPILE, seconds: float = 0.01
) -> ChildEnd:
    """The backend raised this, in a function of its own."""
    frames = [["nobackend.lower", "lower", "/nobackend/lower.py", 3]]
    links = [{"type": kind, "bases": ["Exception", "BaseException"], "message": message, "frames": frames}]
    answer = {"status": "failure", "stage": stage.value, "links": links, "traceback": f"{kind}: {message}\n"}
    return ChildEnd(answer, seconds, status=0)


def invalid() -> ChildEnd:
    """Eager failed on the candidate."""
    links = [{"type": "ValueError", "bases": ["Exception"], "message": "no program", "frames": []}]
    return ChildEnd({"status": "invalid", "links": links, "traceback": "ValueError: no program\n"}, 0.01, status=0)


def differs(error: float = 1.0, aspect: Aspect = Aspect.VALUES, where: str = "output 0") -> ChildEnd:
    """The compiled result is this far from eager's, which is itself off by a millionth."""
    return differs_by(Difference(aspect, where, f"{where} is off by {error}", error, 1e-6, 1e-6))


def differs_by(*differences: Difference) -> ChildEnd:
    """The compiled results have these differences."""
    answer = {"status": "failure", "stage": Stage.COMPARE.value, "differences": pack(differences)}
    return ChildEnd(answer, 0.01, status=0)


def logs(line: str, stage: Stage = Stage.COMPILE) -> ChildEnd:
    """The backend logged this line, and did as it was asked."""
    return ChildEnd({"status": "said", "lines": [(stage.value, line)]}, 0.01, status=0)


def dies(number: int = signal.SIGSEGV, written: str = "", stage: Stage = Stage.COMPILE) -> ChildEnd:
    return ChildEnd(None, 0.01, signal=number, stage=stage.value, written=written)


def exhausts() -> ChildEnd:
    """The child was killed for the memory that it took."""
    return ChildEnd(None, 0.01, signal=signal.SIGKILL, stage=Stage.COMPILE.value, exhausted=True)


def breaks() -> ChildEnd:
    """This tool itself failed in the child."""
    return ChildEnd(None, 0.01, status=0, fault="Traceback: the tool's own")


def hangs() -> ChildEnd:
    return passes(seconds=math.inf)


def when(condition: Condition, ended: ChildEnd, otherwise: ChildEnd | Fault = passes()) -> Fault:  # noqa: B008 - it is frozen
    """A fault that shows where the condition holds."""

    def fault(case: Case) -> ChildEnd:
        if condition(case):
            return ended
        return otherwise if isinstance(otherwise, ChildEnd) else otherwise(case)

    return fault


def targets(case: Case) -> list[str]:
    """The ops of the Case's graph, by the last parts of their targets."""
    return [node.short_target for node in case.graph.ops]


def has(*ops: str) -> Condition:
    """Ops of all of these targets are in the graph."""
    return lambda case: set(ops) <= set(targets(case))


def has_node(*names: str) -> Condition:
    """The nodes of all of these names are ops of the graph."""
    return lambda case: set(names) <= {node.name for node in case.graph.ops}


def planned(plan: str, fault: Fault, each_call: bool = False) -> Fault:
    """A fault that shows where the next letter of the plan is F, and does not at a P. The last two letters come again
    and again. With `each_call` a letter is drawn at each call of the candidate, up to the first F."""
    letters = list(plan)

    def shows(case: Case) -> ChildEnd:
        ended = fault(case)
        if ended.result == passes().result:
            return ended
        for _ in range(case.calls if each_call else 1):
            letter = letters.pop(0)
            if len(letters) < 2:
                letters.append(letter)
            if letter == "F":
                return ended
        return passes(ended.seconds)

    return shows


def flaky(rate: float, fault: Fault, seed: int = 0) -> Fault:
    """A fault that shows in so many of the probes that meet it."""
    chance = Random(seed)

    def shows(case: Case) -> ChildEnd:
        ended = fault(case)
        return ended if chance.random() < rate else passes(ended.seconds)

    return shows


def seen_failure(ended: ChildEnd, nodes: Collection[str] = (), **changes: Any) -> Failure:
    """The failure that a child which ended like this showed."""
    failure = seen(_within(ended, Limits(1.0)), dict.fromkeys(nodes, ""))
    assert failure is not None
    return replace(failure, **changes)


def _within(ended: ChildEnd, limits: Limits) -> ChildEnd:
    """The end as it is seen where a child is killed at its time limit."""
    if ended.seconds < limits.seconds:
        return ended
    return ChildEnd(None, limits.seconds, signal=signal.SIGKILL, timed_out=True, stage=ended.stage or "compile")


@dataclass
class FakeProber:
    """Answers by a fault. `rounds` has the candidates of each call, `limits` the time limit of each.

    At the probe of the number `interrupt_at`, counted from 0, it raises `interrupt` in place of an answer.
    """

    fault: Fault
    workers: int = 1
    interrupt_at: int | None = None
    interrupt: type[BaseException] = KeyboardInterrupt
    rounds: list[list[Case]] = field(default_factory=list)
    limits: list[float] = field(default_factory=list)
    until: set[Stage] = field(default_factory=set)

    def probe(self, cases: Sequence[Case], until: Stage, limits: Limits) -> list[ChildEnd]:
        assert 1 <= len(cases) <= max(2, self.workers), "more candidates at once than workers"
        before = len(self.asked)
        if self.interrupt_at is not None and before <= self.interrupt_at < before + len(cases):
            self.interrupt_at = None  # once
            raise self.interrupt
        self.rounds.append(list(cases))
        self.limits.append(limits.seconds)
        self.until.add(until)
        return [_within(self.fault(case), limits) for case in cases]

    @property
    def asked(self) -> list[Case]:
        """All candidates, in the order in which they were tried."""
        return [case for cases in self.rounds for case in cases]

    @property
    def ops_asked(self) -> list[list[str]]:
        """The ops of each candidate."""
        return [targets(case) for case in self.asked]


@dataclass
class BackendProber(FakeProber):
    """Calls the real backend in this process, as a probe's child does: for backends that raise and do no more."""

    fault: Fault = field(init=False)
    prepared: PreparedCase = field(kw_only=True)

    def __post_init__(self) -> None:
        self.fault = self._evaluated

    def _evaluated(self, case: Case) -> ChildEnd:
        OutputGraph.call_user_compiler = CALL_USER_COMPILER  # which a probe hooks in a process of its own
        try:
            return ChildEnd(evaluate(self.prepared, case, self.prepared.case.failure.fingerprint.stage), 0.01, status=0)
        except Exception:
            return ChildEnd(None, 0.01, status=0, fault=traceback.format_exc())


def run_here(jobs: Iterable[Job], limits: Limits, scratch: Path) -> list[ChildEnd]:
    """Runs the jobs beside the probes in this process."""
    return [_ended(job) for job in jobs]


def _ended(job: Job) -> ChildEnd:
    try:
        return ChildEnd(job(), 0.01, status=0)
    except Exception:
        return ChildEnd(None, 0.01, status=0, fault=traceback.format_exc())
