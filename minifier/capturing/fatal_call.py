"""What ended a script: the backend call that it was in, and how that failed."""

from __future__ import annotations

import signal
from pathlib import Path

from minifier.capturing.running_calls import Running, RunningCalls
from minifier.capturing.watch import Watch, sent_from_outside
from minifier.failure import Failure, Fingerprint, Kind
from minifier.process.forked_step import StepEnd
from minifier.process.stacks import read_stack

STACKS = "stacks.txt"


def fatal_call(status: RunningCalls, end: StepEnd, watch: Watch, stacks: Path) -> Running | None:
    """The backend call in which the process came to an end that was not its own, if there is one."""
    if watch.hung is not None:
        return watch.hung
    running = status.running()
    if not running or status.has_ended or end.interrupted or sent_from_outside(end.signal):
        return None
    dying = [call for call in running if read_stack(stacks, call.thread, dying=True)]
    return (dying or running)[0]


def how_it_ended(end: StepEnd, watch: Watch, folder: Path, call: Running) -> Failure:
    """The failure that a call showed which did not come back."""
    if watch.exhausted:
        fingerprint = Fingerprint(call.stage, Kind.OUT_OF_MEMORY, message="no more memory")
        taken = f"it had taken {watch.exhausted / 2**30:.1f} GiB"
        return Failure(fingerprint, Kind.OUT_OF_MEMORY.value, taken, watch.stack)
    if watch.hung is not None:
        fingerprint = Fingerprint(call.stage, Kind.TIMEOUT, message="no end")
        return Failure(fingerprint, Kind.TIMEOUT.value, f"no end after {watch.seconds:.0f} s", watch.stack)
    kind, how = Kind.EXIT, f"exit status {end.status}"
    if end.signal is not None:
        kind, how = Kind.SIGNAL, signal.Signals(end.signal).name
    return Failure(Fingerprint(call.stage, kind, message=how), kind.value, how, read_stack(folder / STACKS))
