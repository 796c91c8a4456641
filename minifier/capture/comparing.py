"""Compares what a backend compiled with eager, in the script's own process, after the first call of each graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from minifier.capture.terms import Comparing
from minifier.case.store import load
from minifier.compare import compare
from minifier.failure import Failure, Stage
from minifier.failure.compared import failure_of_differences
from minifier.failure.fingerprint import failure_of
from minifier.failure.observed import describe, text
from minifier.fx.build import build_graph
from minifier.fx.tensors import StoredTensors
from minifier.fx.values import make_inputs

if TYPE_CHECKING:
    from minifier.capture.record import Record


def compare_call(record: Record, compiled: Callable[..., Any], comparing: Comparing) -> tuple[Failure, bool] | None:
    """Calls `compiled` and eager on the inputs that were kept of the record's first call; (failure, whether it takes
    a backward pass to see it), or None where there is nothing to say against the compiled one.

    The inputs come from the store each time, mapped anew: what a run does not write to is in memory once.
    """
    case = load(record.folder)

    def inputs() -> list[Any]:
        return make_inputs(case.inputs, StoredTensors(case.tensors), None, own=False)

    found = compare(
        compiled,
        case.graph,
        inputs,
        lambda graph: build_graph(graph, StoredTensors(case.tensors)),
        comparing.measure,
        backward=comparing.backward,
        names=[item.name for item in case.inputs],
    )
    if found.differences:
        failure = failure_of_differences(found.differences)
        only_gradients = all(each.is_of_backward for each in found.differences)
        return failure, comparing.backward and only_gradients
    error = found.compiled_error
    if error is not None and found.compiled_stage is Stage.BACKWARD_RUN:
        # The script's own call came back; what its backward pass raised is not seen where no AOTAutograd is used.
        return failure_of(Stage.BACKWARD_RUN, describe(error), text(error), case.graph.free_names), True
    return None
