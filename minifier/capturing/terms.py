"""How a script runs: its limits, and which failures other than exceptions count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from minifier.failure import Tolerance


@dataclass(frozen=True, slots=True)
class Keep:
    """A call of a compiled graph, or its compilation (call 0), whose inputs must be saved beforehand.

    patience: seconds until a call that is known to hang counts as hung; None: as for any other call.
    """

    number: int
    call: int
    patience: float | None = None


@dataclass(frozen=True, slots=True)
class Comparing:
    """How results are compared with eager's. Graphs are Dynamo's, counted from 1.

    backward: an earlier run of the script has run backward passes.
    trained: graphs that these reached; None: any graph.
    changed: graphs whose inputs the backend changed while it compiled them.
    left_out: graphs that are not compared, because the process died in their comparison.
    last_calls: how often each graph was called in an earlier run.
    seconds: once comparing has taken so long, only first calls of the first few graphs are compared.
    """

    measure: Tolerance
    backward: bool = False
    trained: frozenset[int] | None = None
    changed: frozenset[int] = frozenset()
    left_out: frozenset[int] = frozenset()
    last_calls: Mapping[int, int] = field(default_factory=dict)
    seconds: float = 0.0

    def trains(self, place: int) -> bool:
        """Whether gradients of Dynamo's `place`th graph are compared."""
        return self.backward and (self.trained is None or place in self.trained)


@dataclass(frozen=True, slots=True)
class Terms:
    """Limits and options of a script's run.

    timeout: seconds for each backend call; None: `Watch` chooses.
    memory: bytes beyond the process's initial memory; None: any reservation, and use of most of the free memory.
    match_log: a regular expression; a matching log line is a failure.
    silent_fallbacks: a fallback that the backend logs is a failure.
    keep: the call whose inputs are saved beforehand.
    keep_all: save the inputs of every call beforehand.
    in_place: this is the user's own process, which minify's failures must not end.
    comparing: compare calls of each graph with eager.
    in_eager: torch.compile runs everything in eager mode.
    module_calls: calls of modules from outside of modules are compiled, where another backend than the script's does.
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
    module_calls: bool = False

    @property
    def purpose(self) -> str:
        """Why the script runs again; "" for its first run, whose output is the user's."""
        if self.comparing is not None:
            return "comparing results with eager's"
        if self.in_eager:
            return "in eager mode"
        if self.keep is not None:
            return "recording the inputs of the failing call"
        return "compiling each module that it calls" if self.module_calls else ""
