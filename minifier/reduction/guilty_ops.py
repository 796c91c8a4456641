"""Tells the ops that make the results of the whole graph wrong from those whose wrong values do not matter."""

from __future__ import annotations

import contextlib
import itertools
import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import torch

from minifier import search
from minifier.data.case import Case, Graph, Input, Node, Recorded, Ref, ScalarInput, TensorMeta
from minifier.data.case.graph import is_in_place, map_refs, refs_in
from minifier.data.case.ops import atoms, with_ops, written_storages
from minifier.data.case.serial import unpack
from minifier.data.failure import Difference, Stage, same
from minifier.data.failure.evidence import failure_of_differences
from minifier.data.failure.likeness import is_alike
from minifier.process.progress import counted
from minifier.reduction.op_search import reduce_ops
from minifier.reduction.probe.evaluate import evaluate
from minifier.reduction.probe.prepared_case import PreparedCase, in_modes, set_globals
from minifier.reduction.probe_runner import Atom, Causes, ProbeRunner
from minifier.reduction.simplify_and_prove import proved_again
from minifier.torch_side import compare
from minifier.torch_side.fx.graphs import build_graph
from minifier.torch_side.fx.inputs import make_inputs
from minifier.torch_side.torch_private.dynamo import outputs_dynamo_takes
from minifier.torch_side.torch_private.graphs import as_dynamo_calls
from minifier.torch_side.torch_private.inductor import tame_inductor


@dataclass(frozen=True, slots=True)
class _Write:
    """An in-place op at its position, with the storage that it changes."""

    at: int
    op: str
    storage: int


def _writes(graph: Graph, among: Collection[str]) -> list[_Write]:
    nodes = [(i, node) for i, node in enumerate(graph.nodes) if node.name in among]
    return [_Write(i, node.name, storage) for i, node in nodes for storage in sorted(written_storages(graph, node))]


def _changed(graph: Graph, reader: Node, writes: Sequence[_Write]) -> dict[str, str]:
    """Return the tensors that the reader reads after a write, each with the last op that has changed its storage."""
    changed = {}
    here = graph.index[reader.name] if writes else 0
    for name in reader.refs() if writes else ():
        value, made = graph.node(name).value, graph.index[name]
        for write in writes:
            if made < write.at < here and isinstance(value, TensorMeta) and value.storage == write.storage:
                changed[name] = write.op
    return changed


def _snapshot(tensor: str, op: str) -> str:
    return f"{tensor}_after_{op}"


def with_snapshots(graph: Graph) -> Graph:
    """Return the graph with a copy of each tensor that is read after an in-place op of another atom has changed it.

    Values are recorded as they are made. The copies record what they are later."""
    writes = _writes(graph, {node.name for node in graph.ops})
    if not writes:
        return graph
    atom_of = {name: i for i, group in enumerate(atoms(graph)) for name in group}
    pairs = [(node.name, *pair) for node in graph.ops for pair in _changed(graph, node, writes).items()]
    copies: dict[str, list[Node]] = {}
    for tensor, op in dict.fromkeys((tensor, op) for reader, tensor, op in pairs if atom_of[reader] != atom_of[op]):
        value = graph.node(tensor).value
        assert isinstance(value, TensorMeta), "it has a storage"
        own = replace(value, storage=None, offset=0)
        copy = Node(_snapshot(tensor, op), "call_function", "torch.clone", (Ref(tensor),), value=own)
        copies.setdefault(op, []).append(copy)
    return replace(graph, nodes=tuple(each for node in graph.nodes for each in (node, *copies.get(node.name, ()))))


def with_eagers_values(case: Case, names: Collection[str]) -> Case | None:
    """Return the Case with the recorded values of these ops, whole atoms, in their places; None if one is not recorded.

    In the place of a result that the ops compute stand the values from which they compute it."""
    graph = case.graph
    writes = _writes(graph, names)
    changed = {node.name: _changed(graph, node, writes) for node in graph.nodes if node.name not in names}
    whole = with_snapshots(graph)
    kept = [node.name for node in graph.ops if node.name not in names]
    if any(_snapshot(*pair) not in whole.index for name in kept for pair in changed[name].items()):
        return None
    nodes = tuple(_reading(node, changed.get(node.name, {})) for node in whole.nodes)
    smaller = with_ops(replace(case, graph=replace(whole, nodes=nodes)), kept)
    given = {item.name for item in case.inputs}
    added = [item for item in smaller.inputs if item.name in whole.index and item.name not in given]
    if not all(map(_is_known, added)):
        return None
    results = _results(graph, set(names), changed[graph.output.name])
    return replace(smaller, graph=returning(smaller.graph, [name for name in results if name in smaller.graph.index]))


def _results(graph: Graph, replaced: Collection[str], changed: Mapping[str, str]) -> list[str]:
    """Return the results of the graph, with the values that `replaced` ops read for a result in the result's place.

    `changed` are the results that a replaced op has changed, each with the op."""
    own = [changed.get(name, name) for name in refs_in(graph.output.args)]
    results: dict[str, None] = {}
    waiting, seen = list(own), set(own)
    while waiting:
        name = waiting.pop(0)
        node = graph.node(name)
        if name in replaced:
            more = [each for each in dict.fromkeys(node.refs()) if each not in seen]
            waiting += more
            seen.update(more)
        elif name in own or (node.is_op and isinstance(node.value, TensorMeta)):
            results[name] = None
    return list(results)


def _is_known(item: Input) -> bool:
    return item.value is not None if isinstance(item, ScalarInput) else isinstance(item.source, Recorded)


def _reading(node: Node, changed: dict[str, str]) -> Node:
    """Return the op with the snapshots of tensors that were `changed`, each by an op, in the tensors' places."""

    def snapshot(ref: Ref) -> Ref:
        return Ref(_snapshot(ref.name, changed[ref.name])) if ref.name in changed else ref

    if not changed or not node.is_op:
        return node
    return replace(node, args=map_refs(node.args, snapshot), kwargs=map_refs(node.kwargs, snapshot))


def returning(graph: Graph, names: Sequence[str]) -> Graph:
    """Return the graph with these values as its results."""
    output = replace(graph.output, args=(tuple(map(Ref, names)),))
    return replace(graph, nodes=(*graph.nodes[:-1], output))


_MAX_OUTPUT_BYTES = 2**29  # all values of the graph together; several copies are in memory at once
_MAX_ITEM_BYTES = 8

_OUTPUT = re.compile(r"output (\d+)$")
_CHANGED_INPUT = re.compile(r"input (\w+) after the call$")


def wrong_values(runner: ProbeRunner, case: Case) -> dict[str, list[Difference]]:
    """Return the differences of each op whose compiled value differs from eager's, in the graph's order.

    The graph runs once with every value as a result. It is compiled differently then: nothing can be fused away. Empty
    if all values together are too large."""
    ops = [(node.name, node.value.elements) for node in case.graph.ops if isinstance(node.value, TensorMeta)]
    if sum(elements for _, elements in ops) * _MAX_ITEM_BYTES > _MAX_OUTPUT_BYTES:
        return {}
    names = [name for name, _ in ops]
    candidate = replace(case, graph=returning(case.graph, names), backward=False)
    differences: dict[str, list[Difference]] = {node.name: [] for node in case.graph.ops}
    for each in _compared(runner, candidate) or ():
        if (match := _OUTPUT.match(each.where)) and int(match[1]) < len(names):
            differences[names[int(match[1])]].append(each)
        elif match := _CHANGED_INPUT.match(each.where):
            for name in _writers(case.graph, match[1]):
                differences[name].append(each)
    return {name: each for name, each in differences.items() if each}


def _writers(graph: Graph, name: str) -> list[str]:
    """Return the ops that change this input in place."""
    value = graph.node(name).value if name in graph.index else None
    storage = value.storage if isinstance(value, TensorMeta) else None
    return [node.name for node in graph.ops if storage in written_storages(graph, node)]


def find_causes(runner: ProbeRunner, case: Case) -> Causes:
    """Find the ops that make the graph's results wrong: eager's values in their places make the results right.

    Of an op and the ops that read its value, the op itself is guilty. Takes about log2(n) runs for each guilty op. If a
    run fails, nothing is known."""
    suspects = wrong_values(runner, case)
    guilty = _guilty(runner, case, [group for group in atoms(case.graph) if not set(group).isdisjoint(suspects)])
    if not guilty:
        return Causes()
    names = {name for group in guilty for name in group}
    corrected = with_eagers_values(case, names)
    still_wrong = wrong_values(runner, corrected) if corrected is not None and corrected.graph.ops else {}
    innocent = {name for name, each in still_wrong.items() if shows(case, each)}
    order = case.graph.index
    return Causes(
        True,
        tuple(sorted(guilty, key=lambda group: order[group[0]])),
        frozenset(innocent.difference(case.graph.output.refs())),
    )


def _guilty(runner: ProbeRunner, case: Case, groups: Sequence[Atom]) -> list[Atom]:
    """Return the fewest of the atoms whose replacement makes the results right; [] if that is not known."""
    groups = [group for group in groups if with_eagers_values(case, group) is not None]
    guilty: list[Atom] = []
    if not groups or not is_right(runner, case, groups):
        return []
    while groups:
        low, high = 0, len(groups)  # the first `high` groups suffice, together with the guilty; the first `low` do not
        while high - low > 1:
            middle = (low + high) // 2
            if (right := is_right(runner, case, [*guilty, *groups[:middle]])) is None:
                return []
            low, high = (low, middle) if right else (middle, high)
        guilty.append(groups[high - 1])
        groups = groups[: high - 1]
        if (right := is_right(runner, case, guilty)) is not False:
            return guilty if right else []
    return []


def shows(case: Case, differences: Sequence[Difference]) -> bool:
    """Return whether the differences are the Case's failure, and not a far smaller one."""
    if not differences:
        return False
    failure = failure_of_differences(differences, case.failure.fingerprint)
    return same(case.failure.fingerprint, failure.fingerprint) and is_alike(case.failure, failure)


def _compared(runner: ProbeRunner, candidate: Case) -> tuple[Difference, ...] | None:
    """Return the candidate's differences from eager; None if nothing could be compared. A flaky failure gets several
    runs, up to the first with a difference."""
    differences: tuple[Difference, ...] = ()
    for _ in range(runner.repeats):
        (result,) = runner.run([lambda: evaluate(runner.prepared, candidate, Stage.COMPARE)])
        if result is None or (result["status"] != "pass" and "differences" not in result):
            return None
        differences = unpack(tuple[Difference, ...], result.get("differences", []))
        if differences:
            break
    return differences


def is_right(runner: ProbeRunner, case: Case, groups: Sequence[Atom]) -> bool | None:
    """Return whether the failure is gone with eager's values in the places of these atoms' results.

    None if that could not be tried."""
    candidate = with_eagers_values(case, {name for group in groups for name in group})
    if candidate is None:
        return None
    if not any(candidate.graph.output.refs()) and not any(map(is_in_place, candidate.graph.ops)):
        return True
    differences = _compared(runner, candidate)
    return None if differences is None else not shows(case, differences)


_MAX_NAMED = 3  # of the other guilty ops
_MAX_SEARCHES = 3  # after a search that ended at innocent ops


class Guilt(Enum):
    """Whether the reduced graph's ops make the whole graph's results wrong."""

    PROVED = "proved"
    REPEATED = "repeated"
    SHARED = "shared"
    NONE = "none"
    DOUBTFUL = "doubtful"
    UNTESTED = "untested"


_SENTENCES = {
    Guilt.PROVED: "if eager computes the remaining ops in the whole graph, its failure is gone",
    Guilt.REPEATED: "the whole graph fails at the same ops in other places too: {others}",
    Guilt.SHARED: "the whole graph fails at more than this: its failure is gone only with eager's "
    "values for {others} too",
    Guilt.NONE: "the reduced graph's ops are wrong, but the results of the whole graph do not depend on that, but on "
    "{others}",
    Guilt.DOUBTFUL: "if eager computes the remaining ops in the whole graph, it still fails, and the ops at fault are "
    "not known",
    Guilt.UNTESTED: "whether the reduced graph's ops make the results of the whole graph wrong could not be tested",
}


@dataclass(frozen=True, slots=True)
class Charge:
    """Whether the ops of a reduced graph are guilty. `others` names the other guilty ops, one for each atom."""

    guilt: Guilt
    others: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """The sentence for the user."""
        names = [_counted(name, count) for name, count in Counter(self.others).items()]
        more = [counted(len(names) - _MAX_NAMED, "more op")] if len(names) > _MAX_NAMED else []
        return _SENTENCES[self.guilt].format(others=" and ".join([*names[:_MAX_NAMED], *more]))


_ANOTHER = "another call of "


def _counted(name: str, count: int) -> str:
    """Return `2 other calls of relu` for an op that is named twice."""
    if count == 1:
        return name
    is_kept = name.startswith(_ANOTHER)
    return f"{count} other calls of {name.removeprefix(_ANOTHER)}" if is_kept else f"{count} calls of {name}"


def _said(node: Node, reduced: Case) -> str:
    """Return the function and the place of an op that is not in the reduced graph: the repro has no name for it.

    A line of the script that runs several times has the same op in the reduced graph too.
    """
    said = f"{node.short_target} in {node.place}" if node.place else node.short_target
    is_kept = any((each.short_target, each.place) == (node.short_target, node.place) for each in reduced.graph.ops)
    return f"{_ANOTHER}{said}" if is_kept else said


def _last_op(case: Case, group: Atom) -> Node:
    """Return the atom's last op that does more than pick from a result."""
    nodes = [case.graph.node(name) for name in reversed(group)]
    return next((node for node in nodes if node.target != "operator.getitem"), nodes[0])


def charge(runner: ProbeRunner, case: Case, reduced: Case) -> Charge:
    """Test whether the ops of a reduced graph make the results of the whole graph wrong.

    Takes one run of the whole graph where they do. Where they do not, takes another with eager's values for all ops of
    their kinds, and then as many as the search for the guilty ops takes.
    """
    if case.measure.predicate:  # it judges the results of the whole graph, in their order
        return Charge(Guilt.UNTESTED)
    kept = {node.name for node in reduced.graph.ops}
    own = [group for group in atoms(case.graph) if not kept.isdisjoint(group)]
    if not runner.causes.known:
        right = is_right(runner, case, own)
        if right is not False:
            return Charge(Guilt.PROVED if right else Guilt.UNTESTED)
        targets = {_last_op(case, group).target for group in own}
        of_a_kind = [group for group in atoms(case.graph) if group in own or _last_op(case, group).target in targets]
        if len(of_a_kind) > len(own) and is_right(runner, case, of_a_kind):
            rest = (_said(_last_op(case, group), reduced) for group in of_a_kind if group not in own)
            return Charge(Guilt.REPEATED, tuple(rest))
        runner.causes = find_causes(runner, case)
    guilty = runner.causes.guilty
    others = tuple(_said(_last_op(case, group), reduced) for group in guilty if group not in own)
    if not runner.causes.known:
        return Charge(Guilt.DOUBTFUL)
    if set(own).isdisjoint(guilty):
        return Charge(Guilt.NONE, others)
    return Charge(Guilt.SHARED if others else Guilt.PROVED, others)


def at_guilty_ops(
    runner: ProbeRunner, case: Case, budget: search.Budget, reduced: Case, result: search.Result
) -> tuple[Case, search.Result, Charge]:
    """Charge the ops of a reduced graph. Search again without innocent ops, a few times."""
    charged = charge(runner, case, reduced)
    for _ in range(_MAX_SEARCHES):
        if charged.guilt is not Guilt.NONE:
            break
        runner.prepared.innocent |= _names(reduced) | runner.causes.innocent
        reduced, result = reduce_ops(runner, case, budget)
        charged = charge(runner, case, reduced)
    return _with_all_results(runner, case, budget, reduced, result, charged)


def _with_all_results(
    runner: ProbeRunner, case: Case, budget: search.Budget, reduced: Case, result: search.Result, charged: Charge
) -> tuple[Case, search.Result, Charge]:
    """Search the reduced graph again, with the results of innocent ops compared as well.

    `x + linear(x, 0)` seems minimal if `linear` is called innocent, although `linear` fails alone. The smaller graph is
    taken unless guilty ops would be lost.
    """
    innocent = runner.prepared.innocent
    if innocent.isdisjoint(_names(reduced)) or not result.one_minimal:
        return reduced, result, charged
    runner.prepared.innocent = innocent - _names(reduced)
    smaller, again = reduce_ops(runner, reduced, budget)
    if again.one_minimal and _names(smaller) == _names(reduced):
        return smaller, again, charged
    of_smaller = charge(runner, case, smaller)
    if again.one_minimal and (of_smaller.guilt is not Guilt.NONE or charged.guilt is Guilt.NONE):
        return smaller, again, of_smaller
    runner.prepared.innocent = innocent
    return reduced, result, charged


def _names(case: Case) -> frozenset[str]:
    return frozenset(node.name for node in case.graph.ops)


def fewer_with_all_results(
    runner: ProbeRunner, case: Case, budget: search.Budget
) -> tuple[tuple[str, ...], search.Ending]:
    """Prove the ops of the final Case with the results of innocent ops compared as well.

    Return the functions of the fewer ops that fail then too, if any, and how the proof ended. Takes no probe if all
    results were compared before.
    """
    innocent = runner.prepared.innocent
    if innocent.isdisjoint(_names(case)):
        return (), search.Ending.PROVED
    fewer, ended = case, search.Ending.INTERRUPTED
    runner.prepared.innocent = frozenset()
    with contextlib.suppress(KeyboardInterrupt):
        fewer, ended = proved_again(runner, case, lambda _: None, budget)
    runner.prepared.innocent = innocent
    is_fewer = _names(fewer) != _names(case)
    return tuple(node.short_target for node in fewer.graph.ops) if is_fewer else (), ended


def find_wrong_ops(runner: ProbeRunner, whole: Case, minimal: Case, seconds: float) -> tuple[tuple[str, str], ...]:
    """Return (op, sentence) for each wrong op found within this time, on its inputs in the whole graph.
    Ops of the minimal graph are tried first, then ops of their kinds."""
    blamed = [node.name for node in minimal.graph.ops]
    kinds = {node.target for node in minimal.graph.ops}
    ops = [node for node in whole.graph.ops if node.name not in blamed]
    order = [*blamed, *(n.name for n in ops if n.target in kinds), *(n.name for n in ops if n.target not in kinds)]
    (result,) = runner.run([lambda: _divergent_ops(runner.prepared, whole, order, seconds)])
    if result is None:  # the backend killed the process: the report has no table
        return ()
    place = {node.name: i for i, node in enumerate(whole.graph.ops)}
    return tuple(sorted(((op, sentence) for op, sentence in result["divergent"]), key=lambda pair: place[pair[0]]))


def _divergent_ops(prepared: PreparedCase, whole: Case, order: Sequence[str], seconds: float) -> dict[str, Any]:
    set_globals(whole.state)
    tame_inductor()
    compiler = prepared.compiler(whole.backend)

    def compile_alone(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        outputs = module.graph.output_node().args
        with as_dynamo_calls(prepared.fakes):
            compiled = compiler(module, list(inputs))
        return lambda *args: outputs_dynamo_takes(compiled(*args), *outputs)

    def inputs_of(alone: Graph) -> list[Any]:
        inputs = {item.name: item for item in with_ops(whole, [node.name for node in alone.ops]).inputs}
        read = [inputs[node.name] for node in alone.nodes if node.op == "placeholder"]  # without symbols of sizes
        return make_inputs(read, prepared.tensors, prepared.recorded)

    deadline = time.monotonic() + seconds
    with in_modes(whole.state):
        differences = compare.divergent_ops(
            whole.graph,
            itertools.takewhile(lambda _: time.monotonic() < deadline, order),
            inputs_of,
            lambda graph: build_graph(graph, prepared.tensors, prepared.example),
            compile_alone,
            whole.measure,
        )
    return {"status": "pass", "divergent": [[op, difference.sentence] for op, difference in differences]}
