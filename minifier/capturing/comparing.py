"""Compare calls of compiled functions with eager, in the script's own process."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from minifier.capturing.backend_call import ComparedCall
from minifier.capturing.held_tensors import as_before, as_inputs, changed_tensors, share_memory, written_by_eager
from minifier.capturing.terms import Comparing
from minifier.case import Case, Graph
from minifier.case.graph import tensor_keys
from minifier.case.store import load
from minifier.compare import BackwardPass, Comparison, compare_results
from minifier.compare.results import RandomStates, Results, finish, observe, observe_outputs, random_state_kept
from minifier.compare.runs import EagerRuns
from minifier.failure import Difference, Failure, Stage
from minifier.failure.fingerprint import failure_of
from minifier.failure.from_comparison import failure_of_differences
from minifier.failure.observed import describe, text
from minifier.fx.build import build_graph
from minifier.fx.recorded_values import make_inputs
from minifier.fx.tensors import StoredTensors

if TYPE_CHECKING:
    from minifier.capturing.backend_call import ScriptCall
    from minifier.capturing.graph_record import Record


@dataclass(frozen=True, slots=True)
class Compared:
    """The outcome of a comparison: the failure, if any, and its Case.

    unable: why nothing could be compared; else empty.
    excused: large differences that do not count, because eager itself varies as much.
    gradients: gradients were compared as well. without_gradients: why they could not be compared; else empty.
    """

    case: Case
    failure: Failure | None = None
    unable: str = ""
    gradients: bool = False
    excused: tuple[Difference, ...] = ()
    without_gradients: str = ""


def compare_call(record: Record, compiled: Callable[..., Any], comparing: Comparing, call: ScriptCall) -> Compared:
    """Compare the script's call with eager on the kept inputs. For gradients, call `compiled` once more.

    Each run of eager maps the stored inputs anew: inputs that no run writes to are in memory once.
    """
    case = load(record.folder)
    if collective := _collective(case.graph):
        return Compared(case, unable=f"it has {collective}, which the other processes would have to repeat")
    tensors = StoredTensors(case.tensors)
    live = {key: record.tensors.get(key) for key in tensor_keys(case.graph)}

    def inputs() -> list[Any]:
        return make_inputs(case.inputs, StoredTensors(case.tensors), None, own=False)

    changed_by_eager = written_by_eager(case.graph, inputs, lambda: StoredTensors(case.tensors))
    written = (changed_tensors(live, tensors) | changed_by_eager).intersection(case.graph.attributes.values())
    if share_memory(written, live):
        return Compared(case, unable="it changes tensors that it holds, and that share memory with others")
    count = len(case.inputs)
    case, held = as_inputs(case, written, live, tensors)
    backward = comparing.trains(record.place)
    results, failed = _results(call, held), None
    with random_state_kept():
        runs = EagerRuns(case.graph, inputs, partial(_build, case), backward, call.random)
        eager = runs.first()

        def once_more(
            backward: BackwardPass | None = None, seed: int = 0, start: RandomStates | None = None
        ) -> Results:
            with as_before(live, tensors):
                return observe(
                    lambda *args: compiled(*args[:count]),
                    [*inputs()[:count], *held],
                    backward=backward,
                    seed=seed,
                    start=start,
                    within=lambda: ComparedCall(record),
                )

        if backward and eager.error is None:
            again = once_more(BackwardPass(runs.tangents, retain_graph=True), start=call.random)
            results.gradients, failed = again.gradients, again if again.error is not None else None
        comparison = compare_results(results, eager, runs, comparing.measure, partial(once_more, seed=1))
    return _judged(case, comparison, comparing, failed, backward)


def _collective(graph: Graph) -> str:
    """Return the first collective op of the graph and of the graphs in it; "" if there is none."""
    own = (node.target for node in graph.ops if "c10d" in node.target)
    nested = (_collective(module.graph) for module in graph.modules.values() if module.graph is not None)
    return next(filter(None, itertools.chain(own, nested)), "")


def _build(case: Case, graph: Graph) -> torch.fx.GraphModule:
    return build_graph(graph, StoredTensors(case.tensors))


def _results(call: ScriptCall, held: Sequence[torch.Tensor]) -> Results:
    """Describe the script's call; tensors that the graph holds and changes are inputs as well."""
    results = Results()
    observe_outputs(results, call.result, [*call.args, *held])
    finish(results, call.random)
    return results


def _judged(
    case: Case, comparison: Comparison, comparing: Comparing, failed: Results | None, backward: bool
) -> Compared:
    """Return the comparison's outcome. `failed` is the repeated call for gradients, if that call raised."""
    case = replace(case, measure=comparing.measure)
    # A backward pass that raises gives no gradients to compare.
    differences = [each for each in comparison.differences if failed is None or not each.is_of_backward]
    if differences:
        only_gradients = all(difference.is_of_backward for difference in differences)
        failure = failure_of_differences(differences)
        return Compared(replace(case, backward=backward and only_gradients), failure)
    if comparison.eager_error is not None:
        return Compared(case, unable=f"eager raises: {_line(comparison.eager_error)}")
    if failed is None:
        return Compared(case, gradients=backward, excused=comparison.excused)
    error = failed.error
    assert error is not None
    if failed.stage is Stage.BACKWARD_RUN:
        # Without AOTAutograd the observer does not see the script's own backward pass fail.
        failure = failure_of(Stage.BACKWARD_RUN, describe(error), text(error), case.graph.free_names)
        return Compared(replace(case, backward=True), failure)
    reason = f"what was compiled raises when it is called once more: {_line(error)}"
    return Compared(case, without_gradients=reason, excused=comparison.excused)


def _line(error: BaseException) -> str:
    return " ".join([f"{type(error).__name__}:", *str(error).strip().splitlines()[:1]])
