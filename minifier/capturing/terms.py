"""How a script runs: its limits, and which failures other than exceptions count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from minifier.failure import Tolerance


@dataclass(frozen=True, slots=True)
class Keep:
    """One call of a compiled graph whose inputs are saved before it begins.

    patience: seconds until the call counts as hung, if it is known to hang; None: as for any other call.
    """

    number: int
    call: int
    patience: float | None = None


@dataclass(frozen=True, slots=True)
class Comparing:
    """How results are compared with eager's. Graphs are Dynamo's, counted from 1.

    backward: an earlier run of the script has run backward passes.
    trained: graphs that these reached; None: any graph.
    left_out: graphs that are not compared, because the process died in their comparison.
    last_calls: how often each graph was called in an earlier run.
    seconds: the longest time that comparing further calls than the first of each graph may take.
    """

    measure: Tolerance
    backward: bool = False
    trained: frozenset[int] | None = None
    left_out: frozenset[int] = frozenset()
    last_calls: Mapping[int, int] = field(default_factory=dict)
    seconds: float = 0.0

    def trains(self, place: int) -> bool:
        """Whether gradients of Dynamo's `place`th graph are compared."""
        return self.backward and (self.trained is None or place in self.trained)


@dataclass(frozen=True, slots=True)
class Terms:
    """Limits and options of one run of a script.

    timeout: seconds for each backend call; None: `Watch` chooses.
    memory: bytes beyond the process's initial memory; None: any reservation, and use of most of the free memory.
    match_log: a regular expression; a log line that it matches is a failure.
    silent_fallbacks: a call in which a backend leaves the work to others is a failure, if the backend logs that.
    keep: the call whose inputs are saved before it begins.
    keep_all: save the inputs of every call before it begins.
    in_place: the process is the user's own; minify's failures must not end it.
    comparing: compare calls of each graph with eager.
    in_eager: torch.compile runs everything in eager mode.
    """

    timeout: float | None = None
    memory: int | None = None
    match_log: str | None = None
    silent_fallbacks: bool = False
    keep: Keep | None = None
    keep_all: bool = False
    in_place: bool = False
    comparing: Comparing | None = None
    in_eager: bool = False
