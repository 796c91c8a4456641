"""The user's settings for a reduction."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from minifier.data.failure.kinds import Tolerance

_TIMES_THE_SCRIPT, _MORE_SECONDS = 10, 180.0  # that a run may take without a budget of the user's
_REDUCTION_SHARE = 0.7  # of the seconds that are left to the whole run: the repro is verified and explained after it
_LEAST_SECONDS = 15.0  # for a reduction that begins near the end of a run
_FLAKY_SHARE = 0.5  # of the seconds that a reduction may take


def _usual_seconds(script: float) -> float:
    return _TIMES_THE_SCRIPT * script + _MORE_SECONDS


@dataclass(frozen=True, slots=True)
class Settings:
    """The user's settings for a reduction. Times are in seconds, memory is in bytes.

    `workers` is how many probes are made at once (None: a probe for each core if probes take long). `compare` is auto,
    always, never or strict. `verify` is in how many fresh interpreters the repro must show the failure. `passes` are
    the passes to try besides the removal of ops and of statements (None: all); `skipped` are passes not to try.
    `include_data` is whether real values may go into the bundle, `bundle_private` whether it is written with a repro
    whose constants look like secrets (None: the user is asked). `level` is auto, or source to reduce the script itself
    at once. With `silent_fallbacks`, a logged fallback of a backend, to eager or to another backend, is a failure.
    `explain` is whether a verified repro is asked what of the compiler is at fault. `deadline` is when the whole run
    ends, a reading of the clock `now` (None: it is not known how long the script takes).
    """

    match: str | None = None
    timeout: float | None = None
    memory: int | None = None
    workers: int | None = None
    budget: float | None = None
    max_probes: int | None = None
    include_data: bool | None = None
    bundle_private: bool | None = None
    match_log: str | None = None
    compare: str = "auto"
    measure: Tolerance = field(default_factory=Tolerance)
    verify: int = 3
    passes: tuple[str, ...] | None = None
    skipped: tuple[str, ...] = ()
    level: str = "auto"
    silent_fallbacks: bool = False
    explain: bool = True
    deadline: float | None = None
    now: Callable[[], float] = time.monotonic

    def seconds_for(self, script: float) -> float:
        """Return the seconds that a reduction may take: the user's budget, or what the script takes ten times, and 180.

        No more than a share of what is left to the whole run. `script` is in seconds.
        """
        seconds = _usual_seconds(script) if self.budget is None else self.budget
        return min(seconds, max(_LEAST_SECONDS, _REDUCTION_SHARE * self.seconds_left))

    @property
    def seconds_left(self) -> float:
        """The seconds until the deadline, at least 0."""
        return math.inf if self.deadline is None else max(0.0, self.deadline - self.now())

    def for_run(self, script: float, begun: float) -> Settings:
        """Return the settings with the deadline of a run that began at `begun`, a reading of the clock.

        It is when the script's seconds have passed ten times, and 180 more. A budget of the user's is for the reduction
        alone: the rest of the run gets its share beside it.
        """
        seconds = _usual_seconds(script)
        if self.budget is not None:
            seconds = max(seconds, self.now() - begun + self.budget / _REDUCTION_SHARE)
        return replace(self, deadline=begun + seconds)

    def flaky_seconds_for(self, script: float) -> float:
        """Return the seconds that repetitions of a flaky failure's probes, or its reduction as a second one, may take.

        `script` is in seconds.
        """
        return _FLAKY_SHARE * self.seconds_for(script)

    def wants(self, name: str) -> bool:
        """Whether the settings allow the pass of this name."""
        return (self.passes is None or name in self.passes) and name not in self.skipped
