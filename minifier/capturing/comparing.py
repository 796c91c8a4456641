"""Compare a compiled function with eager, in the script's own process, after the first call of each graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from minifier.capturing.held_tensors import as_before, as_inputs, share_memory, written_by_eager
from minifier.capturing.observer import ComparedCall
from minifier.capturing.terms import Comparing
from minifier.case import Case
from minifier.case.graph import tensor_keys
from minifier.case.store import load
from minifier.compare import Comparison, compare
from minifier.failure import Failure, Stage
from minifier.failure.fingerprint import failure_of
from minifier.failure.from_comparison import failure_of_differences
from minifier.failure.observed import describe, text
from minifier.fx.build import build_graph
from minifier.fx.recorded_values import make_inputs
from minifier.fx.tensors import StoredTensors

if TYPE_CHECKING:
    from minifier.capturing.graph_record import Record


@dataclass(frozen=True, slots=True)
class Compared:
    """The outcome of a comparison: the failure, if any, and its Case.

    unable: why nothing could be compared; else empty.
    gradients: gradients were compared as well.
    """

    case: Case
    failure: Failure | None = None
    unable: str = ""
    gradients: bool = False


def compare_call(record: Record, compiled: Callable[..., Any], comparing: Comparing) -> Compared:
    """Call `compiled` and eager on the kept inputs of the record's first call, and compare the results.

    Each run maps the stored inputs anew: inputs that no run writes to are in memory once.
    """
    case = load(record.folder)
    tensors = StoredTensors(case.tensors)
    live = {key: record.tensors.get(key) for key in tensor_keys(case.graph)}
    with as_before(live, tensors) as changed:

        def inputs() -> list[Any]:
            return make_inputs(case.inputs, StoredTensors(case.tensors), None, own=False)

        changed_by_eager = written_by_eager(case.graph, inputs, lambda: StoredTensors(case.tensors))
        written = (changed | changed_by_eager).intersection(case.graph.attributes.values())
        if share_memory(written, live):
            return Compared(case, unable="it changes tensors that it holds, and that share memory with others")
        count = len(case.inputs)
        case, held = as_inputs(case, written, live, tensors)
        comparison = compare(
            lambda *args: compiled(*args[:count]),
            case.graph,
            inputs,
            lambda graph: build_graph(graph, StoredTensors(case.tensors)),
            comparing.measure,
            backward=comparing.trains(record.place),
            names=[item.name for item in case.inputs],
            around=lambda: ComparedCall(record),
            inputs_of_compiled=lambda: [*inputs()[:count], *held],
        )
    return _judged(case, comparison, comparing, comparing.trains(record.place))


def _judged(case: Case, comparison: Comparison, comparing: Comparing, backward: bool) -> Compared:
    case = replace(case, measure=comparing.measure)
    if comparison.differences:
        only_gradients = all(difference.is_of_backward for difference in comparison.differences)
        failure = failure_of_differences(comparison.differences)
        return Compared(replace(case, backward=backward and only_gradients), failure)
    error = comparison.compiled_error
    if error is not None and comparison.compiled_stage is Stage.BACKWARD_RUN:
        # Without AOTAutograd the observer does not see the script's own backward pass fail.
        failure = failure_of(Stage.BACKWARD_RUN, describe(error), text(error), case.graph.free_names)
        return Compared(replace(case, backward=True), failure)
    if error is not None:
        return Compared(case, unable=f"what was compiled raises when it is called once more: {_line(error)}")
    if comparison.eager_error is not None:
        return Compared(case, unable=f"eager raises: {_line(comparison.eager_error)}")
    return Compared(case, gradients=backward)


def _line(error: BaseException) -> str:
    return " ".join([f"{type(error).__name__}:", *str(error).strip().splitlines()[:1]])
