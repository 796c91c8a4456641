"""How a script is run: its limits, and what is looked for beside exceptions."""

from __future__ import annotations

from dataclasses import dataclass

from minifier.failure import Tolerance


@dataclass(frozen=True, slots=True)
class Keep:
    """One call of one compiled graph, of which the inputs are written down before it begins. `patience` is how many
    seconds it then gets to come back, where it is known to hang; None: as long as any other call."""

    number: int
    call: int
    patience: float | None = None


@dataclass(frozen=True, slots=True)
class Comparing:
    """How results are compared with eager's. `backward` says that the script was seen to run backward passes, and
    `trained` which graphs these came through, counting Dynamo's from 1 (None: it may be any). Graphs in `left_out`,
    counted likewise, are not compared: the process did not survive it."""

    measure: Tolerance
    backward: bool = False
    trained: frozenset[int] | None = None
    left_out: frozenset[int] = frozenset()

    def trains(self, place: int) -> bool:
        """Whether gradients of the graph that Dynamo made as the `place`th are compared."""
        return self.backward and (self.trained is None or place in self.trained)


@dataclass(frozen=True, slots=True)
class Terms:
    """`timeout` is in seconds, for each backend call; None leaves it to `Watch`. `memory` is in bytes, beyond what the
    process begins with; None: it may reserve what it likes, and use most of what is free. A line of a log that
    `match_log` is found in is a failure. `keep_all` has the inputs of each call written ahead. `in_place` says
    that the process is the user's own, which no fault of this tool's may end. With `comparing` the
    first call of each graph is compared with eager."""

    timeout: float | None = None
    memory: int | None = None
    match_log: str | None = None
    keep: Keep | None = None
    keep_all: bool = False
    in_place: bool = False
    comparing: Comparing | None = None
