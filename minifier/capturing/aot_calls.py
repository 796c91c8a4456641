"""Wraps AOTAutograd's calls of a backend's compilers.

A training graph's backward may be compiled, and fail, at its first use, long after Dynamo's call of the backend.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from minifier.capturing.backend_call import AotGraph
from minifier.capturing.graph_record import Record
from minifier.failure import Stage
from minifier.torch_private import (
    BACKWARD,
    INFERENCE,
    backward_arguments,
    copied_graph,
    is_failure,
    observe_aot_compilers,
)

if TYPE_CHECKING:
    from minifier.capturing.observer import Observer


@dataclass(slots=True)
class _SplitGraph:
    """A Dynamo graph that AOTAutograd splits, and its backward graph once that is compiled."""

    forward: Record
    backward: Record | None = None


class AotObserver:
    """The hook around AOTAutograd's compilers; each backward graph gets its own number, above its forward's."""

    def __init__(self, observer: Observer) -> None:
        self.observer = observer
        self.end = observe_aot_compilers(self.begin, self.compiling, self.running)

    def begin(self) -> _SplitGraph | None:
        """Return the state for the graph whose backend calls AOTAutograd, or None outside a backend call."""
        call = self.observer.mine.call
        return _SplitGraph(call.record) if call is not None and call.record.forward is None else None

    def _is_watching(self, pair: _SplitGraph | None) -> bool:
        # Autograd runs a comparison's backward pass in its own threads, unknown to the observer's thread state.
        return pair is not None and self.observer.is_watching and not pair.forward.comparing

    def compiling(
        self,
        pair: _SplitGraph | None,
        part: str,
        gm: torch.fx.GraphModule,
        inputs: Sequence[Any],
        call: Callable[[], Any],
    ) -> Any:
        """Run a compiler; a backward graph is saved before, like Dynamo's graphs."""
        if pair is None or not self._is_watching(pair):
            return call()
        if part != BACKWARD:
            return self._compiling_forward(pair.forward, gm, part == INFERENCE, call)
        observer = self.observer
        observer.count += 1
        pair.backward = record = Record(observer, observer.count, gm, inputs, AotGraph(pair.forward))
        arguments = backward_arguments()
        real_inputs = inputs if arguments is None else arguments
        return observer.around_compile(record, Stage.BACKWARD_COMPILE, real_inputs, call)

    def _compiling_forward(
        self, forward: Record, gm: torch.fx.GraphModule, inference: bool, call: Callable[[], Any]
    ) -> Any:
        """Run the forward compiler, and save the ATen graph on failure; Dynamo's graph is already saved."""
        graph: torch.fx.Graph | None = None
        with forward.undisturbed():
            graph = copied_graph(gm)
        try:
            return call()
        except BaseException as error:
            if graph is not None and is_failure(error):
                with forward.undisturbed():
                    forward.keep_aten(torch.fx.GraphModule(gm, graph), inference, error)
            raise

    def running(self, pair: _SplitGraph, args: list[Any], call: Callable[[], Any]) -> Any:
        """Run a compiled backward."""
        if pair.backward is None or not self._is_watching(pair):
            return call()
        return self.observer.around_run(pair.backward, Stage.BACKWARD_RUN, args, call)
