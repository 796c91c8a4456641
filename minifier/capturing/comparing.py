"""Compare calls of compiled functions with eager, in the script's own process, and keep the worst results."""

from __future__ import annotations

import contextlib
import itertools
import math
import shutil
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from minifier.capturing.running_calls import RunningCalls, Token
from minifier.data.case import Case, Graph, Node, TensorInput
from minifier.data.case.graph import is_in_place, renamed, tensor_keys
from minifier.data.case.inputs import Stored
from minifier.data.case.store import CASE, GRAPH, TENSORS
from minifier.data.failure import Difference, Failure, Stage
from minifier.data.failure.evidence import failure_of_differences, rank_of
from minifier.data.failure.fingerprint import failure_of
from minifier.data.failure.observed import describe, text
from minifier.torch_side.compare import Agreement, BackwardPass, Comparison, compare_results
from minifier.torch_side.compare.results import (
    RandomStates,
    Results,
    finish,
    leaves,
    observe,
    observe_outputs,
    overwritten,
    random_state_kept,
)
from minifier.torch_side.compare.runs import EagerRuns
from minifier.torch_side.fx.arguments import tensor_meta
from minifier.torch_side.fx.graphs import build_graph
from minifier.torch_side.fx.inputs import make_inputs
from minifier.torch_side.fx.tensors import StoredTensors, TensorFile
from minifier.torch_side.torch_private import aot, autograd, dynamo, graphs


@dataclass(frozen=True, slots=True)
class ScriptCall:
    """A finished call of a compiled function by the script.

    args: the inputs, as the call left them. random: the random number generators' states before the call.
    """

    args: Sequence[Any]
    result: Any
    random: RandomStates


class ComparedCall:
    """Reusable context of the compiled function's call in a comparison: gets the time limit of a script's call.

    A backward pass inside, with `retain_graph`, is compiled without donated buffers: the script may retain its own
    graph later.
    """

    def __init__(self, status: RunningCalls, number: int) -> None:
        self._status, self._number = status, number
        self._token: Token | None = None

    def __enter__(self) -> None:
        self._keeping_buffers = aot.without_donated_buffers()
        self._keeping_buffers.__enter__()
        self._token = self._status.enter(Stage.COMPARE, self._number, 1)

    def __exit__(self, *_: object) -> None:
        self._status.leave(self._token, counts=False)
        self._keeping_buffers.__exit__(None, None, None)


@dataclass(frozen=True, slots=True)
class Compared:
    """The outcome of a comparison: the failure, if any, and its Case.

    unable: why nothing could be compared; else empty.
    excused: large differences that do not count, because eager itself varies as much.
    gradients: gradients were compared as well. missing: results or gradients that were not compared, and why.
    furthest: the right result that comes closest to its limit.
    """

    case: Case
    failure: Failure | None = None
    unable: str = ""
    gradients: bool = False
    excused: tuple[Difference, ...] = ()
    missing: str = ""
    furthest: Agreement | None = None


def compare_call(
    case: Case,
    own: TensorFile,
    compiled: Callable[..., Any],
    call: ScriptCall,
    within: Callable[[], AbstractContextManager[Any]],
    *,
    backward: bool,
) -> Compared:
    """Compare the script's call with eager on the kept inputs of the Case; with `backward`, its gradients too.

    For gradients, `compiled` is called once more, in the context `within`. `own` has the tensors that the script's
    graph holds. Each run of eager maps the stored inputs anew: inputs that no run writes to are in memory once.
    """
    if collective := _collective(case.graph):
        return Compared(case, unable=f"it has {collective}, which the other processes would have to repeat")
    tensors = StoredTensors(case.tensors)
    live = {key: own.get(key) for key in tensor_keys(case.graph)}

    def inputs() -> list[Any]:
        return make_inputs(case.inputs, StoredTensors(case.tensors), None, own=False)

    changed_by_eager = written_by_eager(case.graph, inputs, lambda: StoredTensors(case.tensors))
    written = (changed_tensors(live, tensors) | changed_by_eager).intersection(case.graph.attributes.values())
    if share_memory(written, live):
        return Compared(case, unable="it changes tensors that it holds, and that share memory with others")
    count = len(case.inputs)
    case, held = as_inputs(case, written, live, tensors)
    try:
        results, failed = _results(call, dynamo.outputs_dynamo_takes(call.result, *case.graph.output.args), held), None
    except Exception as error:  # noqa: BLE001 - whatever the result raises, Dynamo's code raises it in the script
        return Compared(case, unable=f"its results cannot be taken from what was returned: {_line(error)}")
    with random_state_kept():
        runs = EagerRuns(case.graph, inputs, partial(_build, case), backward, call.random)
        eager = runs.first()

        def once_more(
            backward: BackwardPass | None = None, seed: int = 0, start: RandomStates | None = None
        ) -> Results:
            with as_before(live, tensors):
                return observe(
                    lambda *args: dynamo.outputs_dynamo_takes(compiled(*args[:count]), *case.graph.output.args),
                    [*inputs()[:count], *held],
                    backward=backward,
                    seed=seed,
                    start=start,
                    within=within,
                )

        if backward and eager.error is None:
            again = once_more(BackwardPass(runs.tangents, retain_graph=True), start=call.random)
            results.gradients, failed = again.gradients, again if again.error is not None else None
        comparison = compare_results(results, eager, runs, case.measure, partial(once_more, seed=1))
    return _judged(case, comparison, failed, backward)


def _collective(graph: Graph) -> str:
    """Return the first collective op of the graph and of the graphs in it; "" if there is none."""
    own = (node.target for node in graph.ops if "c10d" in node.target)
    nested = (_collective(module.graph) for module in graph.modules.values() if module.graph is not None)
    return next(filter(None, itertools.chain(own, nested)), "")


def _build(case: Case, graph: Graph) -> torch.fx.GraphModule:
    return build_graph(graph, StoredTensors(case.tensors))


def _results(call: ScriptCall, outputs: Sequence[Any], held: Sequence[torch.Tensor]) -> Results:
    """Describe the script's call; tensors that the graph holds and changes are inputs as well."""
    results = Results()
    observe_outputs(results, outputs, [*call.args, *held])
    finish(results, call.random)
    return results


def _judged(case: Case, comparison: Comparison, failed: Results | None, backward: bool) -> Compared:
    """Return the comparison's outcome. `failed` is the repeated call for gradients, if that call raised."""
    # A backward pass that raises gives no gradients to compare.
    differences = [each for each in comparison.differences if failed is None or not each.is_of_backward]
    if differences:
        only_gradients = all(difference.is_of_backward for difference in differences)
        failure = failure_of_differences(differences)
        return Compared(replace(case, backward=backward and only_gradients), failure)
    if comparison.eager_error is not None:
        return Compared(case, unable=f"eager raises: {_line(comparison.eager_error)}")
    outcome = Compared(case, gradients=backward, excused=comparison.excused, furthest=comparison.furthest)
    if failed is None and comparison.by_draws:
        first, *rest = comparison.by_draws
        more = f" and {len(rest)} more" if rest else ""
        missing = f"{first}{more}: of other random numbers than eager's, so that only their spread was compared"
        is_backward = any(where.startswith("gradient") for where in comparison.by_draws)
        return replace(outcome, gradients=backward and not is_backward, missing=missing)
    if failed is None:
        return outcome
    error = failed.error
    assert error is not None
    if failed.stage is Stage.BACKWARD_RUN:
        # Without AOTAutograd the observer does not see the script's own backward pass fail.
        failure = failure_of(Stage.BACKWARD_RUN, describe(error), text(error), case.graph.free_names)
        return Compared(replace(case, backward=True), failure)
    reason = f"gradients: what was compiled raises when it is called once more: {_line(error)}"
    return replace(outcome, gradients=False, missing=reason)


def _line(error: BaseException) -> str:
    return " ".join([f"{type(error).__name__}:", *str(error).strip().splitlines()[:1]])


Tensors = Mapping[str, torch.Tensor]


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1).view(torch.uint8)


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(_bits(a), _bits(b))


def _write(tensor: torch.Tensor, value: torch.Tensor) -> None:
    with torch.inference_mode(tensor.is_inference()), torch.no_grad():
        tensor.detach().copy_(value)


def changed_tensors(live: Tensors, stored: StoredTensors) -> set[str]:
    """Return the keys of the live tensors that have changed since they were stored."""
    return {key for key, tensor in live.items() if not _same(tensor, stored.get(key))}


@contextlib.contextmanager
def as_before(live: Tensors, stored: StoredTensors) -> Iterator[None]:
    """Give the live tensors their stored values inside the context, and restore their present values afterwards.

    Autograd does not notice.
    """
    present = {key: live[key].detach().clone() for key in changed_tensors(live, stored)}
    with autograd.versions_kept(list(live.values())):
        try:
            for key in present:
                _write(live[key], stored.get(key))
            yield
        finally:
            for key, tensor in live.items():
                value = present.get(key, stored.get(key))
                if not _same(tensor, value):
                    _write(tensor, value)


def written_by_eager(graph: Graph, inputs: Callable[[], list[Any]], tensors: Callable[[], StoredTensors]) -> set[str]:
    """Return the keys of the held tensors that an eager run of the graph changes."""
    if not graph.attributes or not any(map(is_in_place, graph.nodes)):
        return set()
    own, before = tensors(), tensors()
    with random_state_kept(), contextlib.suppress(Exception):  # if it fails, so does the compared eager run
        build_graph(graph, own).forward(*inputs())
    return {key for key in graph.attributes.values() if not _same(own.get(key), before.get(key))}


def share_memory(keys: Collection[str], live: Tensors) -> bool:
    """Whether a tensor under these keys shares its memory with another held tensor."""
    storages = [graphs.storage_key(tensor) for tensor in live.values()]
    return any(storages.count(graphs.storage_key(live[key])) > 1 for key in keys)


def as_inputs(
    case: Case, keys: Collection[str], live: Tensors, stored: StoredTensors
) -> tuple[Case, list[torch.Tensor]]:
    """Turn the held tensors under these keys into further inputs of the Case, with the stored values.

    Return the Case and the live tensors of these inputs.
    """
    graph = case.graph
    used_storages = [item.meta.storage or 0 for item in case.tensor_inputs]
    names: dict[str, str] = {}  # target: name of its first node
    duplicates: dict[str, str] = {}  # name of a later node of a target: name of the first
    placeholders: list[Node] = []
    inputs: list[TensorInput] = []
    live_inputs: list[torch.Tensor] = []
    rest: list[Node] = []
    for node in graph.nodes:
        if node.op != "get_attr" or graph.attributes.get(node.target) not in keys:
            rest.append(node)
        elif node.target in names:
            duplicates[node.name] = names[node.target]
        else:
            key = graph.attributes[node.target]
            names[node.target] = node.name
            meta = tensor_meta(stored.get(key), {})
            storage = max(used_storages, default=-1) + 1 + len(inputs)
            meta = replace(meta, device=str(live[key].device), storage=storage, requires_grad=False)
            placeholders.append(replace(node, op="placeholder", target=node.name, value=meta))
            inputs.append(TensorInput(node.name, meta, Stored(key)))
            live_inputs.append(live[key].detach())
    position = len(graph.placeholders)
    attributes = {target: key for target, key in graph.attributes.items() if key not in keys}
    extended = Graph((*rest[:position], *placeholders, *rest[position:]), attributes, graph.modules)
    return replace(case, graph=renamed(extended, duplicates), inputs=(*case.inputs, *inputs)), live_inputs


# Rounding by design, to fewer bits say, may be wrong in each call; stale values are wrong by far more.
_SMALL_ERROR, _FAR_LARGER = 1e-2, 100.0
_LATER = "later"

_MAX_COPIED_BYTES = 2**26  # of the outputs of a call


@dataclass(frozen=True, slots=True)
class _Kept:
    output: weakref.ref[torch.Tensor]
    values: torch.Tensor

    @property
    def has_changed(self) -> bool:
        """Whether the script still has the output, with other values."""
        output = self.output()
        return output is not None and not _same(output, self.values)


class KeptResults:
    """The outputs of a graph's last compared call, as weak references.

    The memory of an output that the script has dropped may be used again, and the script itself may change an output in
    place. So one counts that a later call's output begins at, once the script goes on and still has it, changed.
    """

    def __init__(self) -> None:
        self._kept: list[_Kept] = []
        self._suspects: list[_Kept] = []
        self._differences: tuple[Difference, ...] = ()
        self.call = 0  # that wrote over them

    def keep(self, result: Any) -> None:
        """Watch the outputs of a call that was found to be right, in the place of an earlier call's."""
        outputs = [value for value in leaves(result)[0] if isinstance(value, torch.Tensor) and not value.is_sparse]
        few = sum(value.nbytes for value in outputs) <= _MAX_COPIED_BYTES
        self._kept = [_Kept(weakref.ref(value), value.detach().clone()) for value in outputs] if few else []

    def look(self, args: Sequence[Any], result: Any, call: int) -> None:
        """Note which of the outputs the result of a later call is written over, unless some were noted before."""
        if not self._kept or self._suspects:
            return
        suspects = [kept for kept in self._kept if overwritten([kept.output()], args, result)]
        if suspects:
            self._suspects, self.call = suspects, call
            self._differences = overwritten([kept.output() for kept in suspects], args, result)

    def lost(self) -> tuple[Difference, ...]:
        """Return how a later call wrote over an output that the script still has; nothing is told twice."""
        if not self._suspects:
            return ()
        differences = self._differences if any(kept.has_changed for kept in self._suspects) else ()
        self._suspects, self._kept = [], []
        return differences


class WorstResult:
    """The worst wrong result of a graph. Its Case is in `home`; Cases of later calls are written to `folder`."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.failure: Failure | None = None

    @property
    def folder(self) -> Path:
        """The folder for the Case of the next call."""
        return self.home if self.failure is None else self.home / _LATER

    @property
    def may_be_worse(self) -> bool:
        """Whether a later result can be worse than a wrong result, or wrong by much more. False without one."""
        return self.failure is not None and (rank_of(self.failure) > 0 or _error(self.failure) < _SMALL_ERROR)

    def replaces(self, failure: Failure) -> bool:
        """Note a wrong result whose Case is in `folder`, if it is worse; return whether there was another before.

        The Case then takes the other's place."""
        before, self.failure = self.failure, failure
        if before is None:
            return False
        for name in (GRAPH, CASE, TENSORS):
            (self.home / name).unlink(missing_ok=True)
            if (self.folder / name).exists():
                (self.folder / name).replace(self.home / name)
        return True

    def is_worse(self, failure: Failure) -> bool:
        """Whether a failure is worse than the worst so far: of a worse aspect, or by a far larger error."""
        if self.failure is None or rank_of(failure) != rank_of(self.failure):
            return self.failure is None or rank_of(failure) < rank_of(self.failure)
        return _error(failure) > _FAR_LARGER * _error(self.failure)

    def clear(self) -> None:
        """Remove the Case of a later call that was not worse."""
        shutil.rmtree(self.home / _LATER, ignore_errors=True)


def _error(failure: Failure) -> float:
    """Return how large the error is; infinite if no size is known."""
    main = failure.main_difference
    return math.inf if main is None or not main.error else main.error
