"""How candidates are probed, by what the first probes show: the timeout, how many at once, how often each."""

from __future__ import annotations

import math

from minifier.failure import Kind
from minifier.process.memory import cores, room
from minifier.reduction.probe_runner import MAX_TIMEOUT_SECONDS, ProbeRunner

_MIN_TIMEOUT_SECONDS = 2.0
_TIMEOUT_FACTOR = 10  # times the seconds of a run that ended
_COMPILE_FACTOR = 3  # times the slowest backend call of the script: what passes is compiled as a whole
_MISS_CHANCE = 0.01  # that a probe with its repetitions misses a flaky failure
_MIN_PASSING_PROBES = 12  # of a flaky failure, with all their repetitions, that its share of the budget must pay for
_PROBE_MEMORY_BYTES = 2**31  # free memory for each parallel probe
_MIN_PARALLEL_PROBE_SECONDS = 0.5  # shorter probes gain nothing from running in parallel


def set_timeout(runner: ProbeRunner, seconds: float) -> None:
    """Set the timeout from a run that ended after so many seconds: ten times as long, within 2 and 300 s.

    Unless a hang is sought, it is not less than this run and three times the script's slowest backend call. The user's
    timeout stands, but is only an upper limit for a hang, because every failing probe waits that long.
    """
    compiles = 0.0 if runner.sought.kind is Kind.TIMEOUT else _COMPILE_FACTOR * runner.prepared.case.script.slowest
    whole = max(_TIMEOUT_FACTOR * seconds, seconds + compiles)
    timeout = min(max(whole, _MIN_TIMEOUT_SECONDS), MAX_TIMEOUT_SECONDS)
    if runner.timeout is None or runner.sought.kind is Kind.TIMEOUT:
        runner.allow(min(timeout, runner.timeout or timeout))


def set_workers(runner: ProbeRunner, seconds: float) -> None:
    """Probe in parallel, up to a probe for each core, if the user set no number and a probe takes long enough.

    Parallel probes disturb each other if they share a device other than the CPU, use up the memory, or run into the
    timeout.
    """
    alone = runner.limits.memory is not None or runner.sought.kind in (Kind.TIMEOUT, Kind.OUT_OF_MEMORY)
    is_slow = seconds > _MIN_PARALLEL_PROBE_SECONDS
    if runner.may_spread and is_slow and not alone and runner.prepared.case.devices <= {"cpu"}:
        runner.workers = min(cores(), max(1, room() // _PROBE_MEMORY_BYTES))


def set_rate(runner: ProbeRunner, shown: int, tries: int) -> None:
    """Set the failure rate, and how often later probes are repeated until the failure shows.

    A candidate with this rate is then missed once in a hundred probes, or more often if the budget pays for fewer
    repetitions.
    """
    runner.rate = shown / tries
    runner.repeats = 1
    if shown < tries:
        needed = math.ceil(math.log(_MISS_CHANCE) / math.log1p(-runner.rate))
        paid = runner.flaky_seconds / (_MIN_PASSING_PROBES * max(runner.last_seconds, 1e-3))
        runner.repeats = max(1, int(min(needed, paid)))


def miss_chance(runner: ProbeRunner, rate: float) -> float:
    """Return the chance that a probe, with its repetitions, misses a failure of this rate."""
    return float((1.0 - rate) ** runner.repeats)
