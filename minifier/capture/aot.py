"""Stands around AOTAutograd's calls of a backend's compilers. A training graph's backward is compiled when it is first
needed, long after Dynamo's call of the backend, and fails there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from minifier.capture.record import Record
from minifier.case import Level
from minifier.failure import Stage
from minifier.torch_private import backward_arguments, observe_aot_compilers

if TYPE_CHECKING:
    from minifier.capture.observer import Observer


class AotObserver:
    """The hook at AOTAutograd's boundary; each backward graph gets a number of its own, after its forward's."""

    def __init__(self, observer: Observer) -> None:
        self.observer = observer
        self.backwards: dict[int, Record] = {}  # by the number of the graph of Dynamo's
        observe_aot_compilers(self.begin, self.compiling, self.running)

    def begin(self) -> Record | None:
        """The graph whose backend call has come to AOTAutograd."""
        call = self.observer.mine.call
        return call.record if call is not None else None

    def compiling(
        self,
        forward: Record | None,
        part: str,
        gm: torch.fx.GraphModule,
        inputs: Sequence[Any],
        call: Callable[[], Any],
    ) -> Any:
        """Around a compiler: a backward graph is written down ahead, as Dynamo's graphs are."""
        observer = self.observer
        if part != Level.AOT_BACKWARD.value or forward is None or not observer.is_watching:
            return call()
        observer.count += 1
        record = Record(observer, observer.count, gm, inputs, forward=forward)
        self.backwards[forward.number] = record
        real = backward_arguments()
        return observer.around_compile(record, Stage.BACKWARD_COMPILE, inputs if real is None else real, call)

    def running(self, forward: Record | None, args: list[Any], call: Callable[[], Any]) -> Any:
        """Around a compiled backward."""
        observer = self.observer
        record = self.backwards.get(forward.number) if forward is not None else None
        if record is None or not observer.is_watching:
            return call()
        return observer.around_run(record, Stage.BACKWARD_RUN, args, call)
