"""What the user asked of a reduction."""

from __future__ import annotations

from dataclasses import dataclass, field

from minifier.failure.difference import Tolerance


@dataclass(frozen=True, slots=True)
class Settings:
    """What the user asked of a reduction; seconds throughout, memory in bytes. `workers` is how many probes are
    made at once (None: one a core where they take long). `compare` is auto, always, never or strict;
    `verify` in how many fresh interpreters the repro has to show the failure. `passes` names the only passes to try
    beside that of the ops (None: all), `skipped` those not to try. `include_data` is whether real values may go
    into the bundle (None: the user is asked). `level` is auto or source, which reduces the script itself at once.
    `cluster` is the address of a Ray cluster that makes the probes, or local. With `silent_fallbacks`,
    a backend that logs that it left a graph to others has failed."""

    match: str | None = None
    timeout: float | None = None
    memory: int | None = None
    workers: int | None = None
    budget: float | None = None
    max_probes: int | None = None
    include_data: bool | None = None
    match_log: str | None = None
    compare: str = "auto"
    measure: Tolerance = field(default_factory=Tolerance)
    verify: int = 3
    passes: tuple[str, ...] | None = None
    skipped: tuple[str, ...] = ()
    level: str = "auto"
    cluster: str | None = None
    silent_fallbacks: bool = False

    def wants(self, name: str) -> bool:
        """Whether the pass of this name is to be tried."""
        return (self.passes is None or name in self.passes) and name not in self.skipped
