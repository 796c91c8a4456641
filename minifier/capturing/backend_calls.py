"""Contexts of calls, of a backend and of a compiled function, and the origin of a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from minifier.capturing.running_calls import Token
from minifier.data.case import BackendReference
from minifier.data.failure import Stage
from minifier.process.interrupts import interrupts_left_to_another
from minifier.torch_side.compare.results import RandomStates
from minifier.torch_side.torch_private.aot import without_donated_buffers

if TYPE_CHECKING:
    from minifier.capturing.graph_record import Record
    from minifier.capturing.observer import Observer


class BackendCall:
    """Context of a backend's compilation or a compiled function's call: marks the call as running, collects its logs.

    `call` counts a compiled function's calls from 1, and is 0 while compiling. `matched` is the first logged line that
    --match-log matches, or the line about a fallback that --fallbacks asks for.
    """

    __slots__ = ("call", "ending", "matched", "observer", "outer", "record", "stage", "token")

    def __init__(self, observer: Observer, record: Record, stage: Stage, call: int = 0) -> None:
        self.observer, self.record, self.stage, self.call = observer, record, stage, call
        self.matched = ""
        self.outer: BackendCall | None = None
        self.token: Token | None = None
        self.ending: Callable[[], None] | None = None

    def __enter__(self) -> BackendCall:
        observer = self.observer
        mine = observer.mine
        self.outer, mine.call = mine.call, self
        observer.open.append(self)
        self.token = observer.status.enter(self.stage, self.record.number, self.call)
        if self.outer is None:
            self.ending = interrupts_left_to_another(lambda: observer.status.lasts_long)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        observer = self.observer
        if self.ending is not None:
            self.ending()
        observer.status.leave(self.token)
        observer.mine.call = self.outer
        if kind is None and self.outer is None:
            observer.mine.logged_error = None
        observer.open.remove(self)


class ComparedCall:
    """Reusable context of the compiled function's call in a comparison: gets the time limit of a script's call.

    A backward pass inside, with `retain_graph`, is compiled without donated buffers: the script may retain its own
    graph later.
    """

    def __init__(self, record: Record) -> None:
        self._record = record
        self._token: Token | None = None

    def __enter__(self) -> None:
        self._keeping_buffers = without_donated_buffers()
        self._keeping_buffers.__enter__()
        self._token = self._record.observer.status.enter(Stage.COMPARE, self._record.number, 1)

    def __exit__(self, *_: object) -> None:
        self._record.observer.status.leave(self._token, counts=False)
        self._keeping_buffers.__exit__(None, None, None)


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
