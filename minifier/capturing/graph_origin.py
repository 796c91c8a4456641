"""The origin of a graph (Dynamo, or AOTAutograd from Dynamo's graph), and a finished call by the script."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from minifier.case import BackendReference, Level
from minifier.compare.results import RandomStates

if TYPE_CHECKING:
    from minifier.capturing.graph_record import Record


@dataclass(frozen=True, slots=True)
class ScriptCall:
    """A finished call of a compiled function by the script.

    args: the inputs, as the call left them. random: the random number generators' states before the call.
    """

    args: Sequence[Any]
    result: Any
    random: RandomStates


@dataclass(frozen=True, slots=True)
class DynamoGraph:
    """Dynamo's `place`th graph, 0 if tracing failed.

    `refer` returns the reference to the graph's backend, and the source of what the script's module does not define.
    """

    refer: Callable[[], tuple[BackendReference, str]]
    place: int


@dataclass(frozen=True, slots=True)
class AotGraph:
    """AOTAutograd's backward or forward graph (`level`) of the Dynamo graph in `forward`."""

    forward: Record
    level: Level = Level.AOT_BACKWARD
