"""Compares what a backend compiled with eager, in the script's own process, after the first call of each graph."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from minifier.capturing.held_tensors import as_before, as_inputs, hold_others, written_by_eager
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
    """What came of it: the `failure`, if there is one, and the Case that shows it; `unable` is why nothing could be
    compared, `gradients` says that these were as well."""

    case: Case
    failure: Failure | None = None
    unable: str = ""
    gradients: bool = False


def compare_call(record: Record, compiled: Callable[..., Any], comparing: Comparing) -> Compared:
    """Calls `compiled` and eager on the inputs that were kept of the record's first call.

    The inputs come from the store each time, mapped anew: what a run does not write to is in memory once.
    """
    case = load(record.folder)
    tensors = StoredTensors(case.tensors)
    live = {key: record.tensors.get(key) for key in tensor_keys(case.graph)}
    with as_before(live, tensors) as changed:

        def inputs() -> list[Any]:
            return make_inputs(case.inputs, StoredTensors(case.tensors), None, own=False)

        eagerly = written_by_eager(case.graph, inputs, lambda: StoredTensors(case.tensors))
        written = (changed | eagerly).intersection(case.graph.attributes.values())
        if hold_others(written, live):
            return Compared(case, unable="it changes tensors that it holds, and that share memory with others")
        count = len(case.inputs)
        case, more = as_inputs(case, written, live, tensors)
        found = compare(
            lambda *args: compiled(*args[:count]),
            case.graph,
            inputs,
            lambda graph: build_graph(graph, StoredTensors(case.tensors)),
            comparing.measure,
            backward=comparing.trains(record.place),
            names=[item.name for item in case.inputs],
            around=lambda: ComparedCall(record),
            inputs_of_compiled=lambda: [*inputs()[:count], *more],
        )
    return _judged(case, found, comparing, comparing.trains(record.place))


def _judged(case: Case, found: Comparison, comparing: Comparing, backward: bool) -> Compared:
    case = replace(case, measure=comparing.measure)
    if found.differences:
        only_gradients = all(each.is_of_backward for each in found.differences)
        failure = failure_of_differences(found.differences)
        return Compared(replace(case, backward=backward and only_gradients), failure)
    error = found.compiled_error
    if error is not None and found.compiled_stage is Stage.BACKWARD_RUN:
        # The script's own call came back; what its backward pass raised is not seen where no AOTAutograd is used.
        failure = failure_of(Stage.BACKWARD_RUN, describe(error), text(error), case.graph.free_names)
        return Compared(replace(case, backward=True), failure)
    if error is not None:
        return Compared(case, unable=f"what was compiled raises when it is called once more: {_line(error)}")
    if found.eager_error is not None:
        return Compared(case, unable=f"eager raises: {_line(found.eager_error)}")
    return Compared(case, gradients=backward)


def _line(error: BaseException) -> str:
    return " ".join([f"{type(error).__name__}:", *str(error).strip().splitlines()[:1]])
