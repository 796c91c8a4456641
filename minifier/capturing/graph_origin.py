"""What made a graph (Dynamo, or AOTAutograd from such a graph), and a finished call of it by the script."""

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

    args: its inputs, as they are after it. random: the states of the random number generators ahead of it.
    """

    args: Sequence[Any]
    result: Any
    random: RandomStates


@dataclass(frozen=True, slots=True)
class DynamoGraph:
    """A graph that Dynamo made, its `place`th. `refer` looks how its backend is written back.

    `definitions` is the backend's source, if the script does not define it.
    """

    refer: Callable[[], BackendReference]
    place: int
    definitions: str = ""


@dataclass(frozen=True, slots=True)
class AotGraph:
    """A graph that AOTAutograd made of the graph of `forward`: backward or forward, as `level` says."""

    forward: Record
    level: Level = Level.AOT_BACKWARD
