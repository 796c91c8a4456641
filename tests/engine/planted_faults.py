"""Faults planted in random graphs, and all smallest sets of ops that show them, found by trying every subset."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from random import Random
from typing import Any

import planted
from captured import Captured, captured
from fake_prober import seen_failure
from random_graphs import random_program

from minifier.data.case import BackendReference, BackendSource, Case, Node, ScalarInput, Script, State, TensorMeta
from minifier.data.case.graph import is_in_place
from minifier.data.case.ops import with_ops
from minifier.data.case.values import Sequence_
from minifier.data.failure import Failure, Fingerprint, Kind, Stage
from minifier.reduction.probe.children import ChildEnd
from minifier.reduction.probe.evaluate import evaluate, run_eagerly, runs
from minifier.reduction.probe.prepared_case import PreparedCase
from minifier.torch_side.fx.graphs import build_graph
from minifier.torch_side.fx.tensors import StoredTensors

Ops = frozenset[str]
MIN_OPS, MAX_OPS = 4, 12
_MAX_OPS_IF_RUN = 8  # of a graph whose subsets are all compiled and run


class CannotPlant(Exception):
    """The graph has no ops for a fault of this kind."""


@dataclass(frozen=True)
class Fault:
    """A fault: the backend's expression, the stage at which it shows, the ops that it was planted in.
    `shows` judges ops of the whole graph without compiling them, None if the fault needs their values."""

    expression: str
    stage: Stage
    ops: Ops
    shows: Callable[[Sequence[Node]], bool] | None = None


def _refused(name: str, *of: Any) -> Callable[[Iterable[Node]], Fault]:
    expression = f"functools.partial(planted.refuse, fault={name!r}, of={of!r})"

    def shows(nodes: Sequence[Node]) -> bool:
        return planted.FAULTS[name](planted.ops_of_nodes(nodes), *of)

    return lambda ops: Fault(expression, Stage.COMPILE, frozenset(op.name for op in ops), shows)


def _one(random: Random, graph: Captured) -> Fault:
    op = random.choice(graph.graph.ops)
    return _refused("all_of", op.short_target)([op])


def _pair(random: Random, graph: Captured) -> Fault:
    read, reader = _drawn(random, _edges(graph))
    return _refused("pair", read.short_target, reader.short_target)([read, reader])


def _distant(random: Random, graph: Captured) -> Fault:
    edges = _edges(graph)
    two = _drawn(random, [pair for pair in combinations(graph.graph.ops, 2) if pair not in edges])
    return _refused("all_of", *(op.short_target for op in two))(two)


def _triple(random: Random, graph: Captured) -> Fault:
    three = random.sample(graph.graph.ops, 3)
    return _refused("all_of", *(op.short_target for op in three))(three)


def _path(random: Random, graph: Captured) -> Fault:
    """From an op to the reader of its reader: the op between them is needed as well."""
    edges = _edges(graph)
    ends = _drawn(random, [(a, d) for a, b in edges for c, d in edges if b is c])
    return _refused("path", *(op.short_target for op in ends))(ends)


def _count(random: Random, graph: Captured) -> Fault:
    alike = [[op for op in graph.graph.ops if op.short_target == each.short_target] for each in graph.graph.ops]
    some = _drawn(random, [ops for ops in alike if len(ops) > 1])
    least = random.randint(2, min(3, len(some)))
    return _refused("count", some[0].short_target, least)(some if least == len(some) else [])


def _size(random: Random, graph: Captured) -> Fault:
    op = _drawn(random, _tensors(graph))
    return _refused("size", op.short_target, _meta(op).elements)([op])


def _dtype(random: Random, graph: Captured) -> Fault:
    op = _drawn(random, _tensors(graph))
    return _refused("dtype", op.short_target, _meta(op).dtype)([op])


def _value(random: Random, graph: Captured) -> Fault:
    op = _drawn(random, _tensors(graph))
    expression = f"functools.partial(planted.refuse_values, target={op.short_target!r}, above={random.choice((0, 1))})"
    return Fault(expression, Stage.RUN, frozenset({op.name}))


def _wrong(random: Random, graph: Captured) -> Fault:
    op = _drawn(random, _computed(graph))
    expression = f"functools.partial(planted.off_by_one, target={op.short_target!r})"
    return Fault(expression, Stage.COMPARE, frozenset({op.name}))


def _wrong_pair(random: Random, graph: Captured) -> Fault:
    computed = _computed(graph)
    read, op = _drawn(random, [(read, op) for read, op in _edges(graph) if op in computed])
    expression = f"functools.partial(planted.off_by_one, target={op.short_target!r}, read={read.short_target!r})"
    return Fault(expression, Stage.COMPARE, frozenset({read.name, op.name}))


KINDS: dict[str, Callable[[Random, Captured], Fault]] = {
    "one op": _one,
    "a pair": _pair,
    "a distant pair": _distant,
    "a triple": _triple,
    "a path": _path,
    "k of a kind": _count,
    "by size": _size,
    "by dtype": _dtype,
    "by value": _value,
    "wrong numbers, one op": _wrong,
    "wrong numbers, a pair": _wrong_pair,
}


def _drawn(random: Random, choices: Sequence[Any]) -> Any:
    if not choices:
        raise CannotPlant
    return random.choice(choices)


def _edges(graph: Captured) -> list[tuple[Node, Node]]:
    ops = {node.name: node for node in graph.graph.ops}
    return [(ops[name], op) for op in ops.values() for name in dict.fromkeys(op.refs()) if name in ops]


def _meta(op: Node) -> TensorMeta:
    assert isinstance(op.value, TensorMeta)
    return op.value


def _tensors(graph: Captured) -> list[Node]:
    return [op for op in graph.graph.ops if isinstance(op.value, TensorMeta)]


def _computed(graph: Captured) -> list[Node]:
    """The ops whose results are new tensors of numbers."""
    storages = [node.value.storage for node in graph.graph.nodes if isinstance(node.value, TensorMeta)]
    new = [op for op in _tensors(graph) if storages.count(_meta(op).storage) == 1 and not is_in_place(op)]
    return [op for op in new if _meta(op).dtype != "bool"]


def planted_case(random: Random, kind: str, folder: Path) -> tuple[Case, Fault, str]:
    """A random graph with a fault of this kind: its Case, the fault, and the program's source."""
    while True:
        program = random_program(random, random.randint(3, 9))
        graph = captured(program.function, [arg.clone() for arg in program.args], folder)
        try:
            fault = KINDS[kind](random, graph) if MIN_OPS <= len(graph.graph.ops) <= MAX_OPS else None
        except CannotPlant:
            continue
        if fault is None or (fault.shows is None and len(graph.graph.ops) > _MAX_OPS_IF_RUN):
            continue
        imports = ("import functools", "import planted")
        backend = BackendReference("planted", BackendSource.IMPORTED, fault.expression, imports)
        unknown = Failure(Fingerprint(fault.stage, Kind.EXCEPTION), "", "")
        case = Case(graph.graph, graph.inputs, backend, unknown, State(), Script("failing"), graph.tensors)
        answer = evaluate(PreparedCase(case, StoredTensors(case.tensors)), case, fault.stage)
        if answer["status"] == "failure":
            failure = seen_failure(ChildEnd(answer, 0.01, status=0), case.graph.free_names)
            return replace(case, failure=failure), fault, program.source


class Judge:
    """Tells of a Case and of its candidates whether they run in eager and show the fault, without the engine."""

    def __init__(self, case: Case, folder: Path) -> None:
        self.case, self.stage = case, case.failure.fingerprint.stage
        self.prepared = PreparedCase(case, StoredTensors(case.tensors))
        if not case.ignores_values:
            folder.mkdir()
            names = [node.name for node in case.graph.ops if isinstance(node.value, TensorMeta)]
            answer = run_eagerly(self.prepared, case.graph, case.inputs, case.state, names, folder)
            assert answer["status"] == "pass", answer
            self.prepared.record(folder)

    def shows(self, candidate: Case) -> bool:
        """Whether the backend fails on the candidate, and eager does not."""
        if any(isinstance(item, ScalarInput) and item.value is None for item in candidate.inputs):
            return False  # the result of an op is needed that is no tensor
        answer = evaluate(self.prepared, candidate, self.stage)
        return bool(answer["status"] == "failure") and runs(self.prepared, candidate)["case"] is not None

    def minimal_sets(self, fault: Fault) -> list[Ops]:
        """Every set of ops that shows the fault and has no smaller set in it that shows it; the smallest first."""
        ops = self.case.graph.ops
        found: list[Ops] = []
        for size in range(1, len(ops) + 1):
            for nodes in combinations(ops, size):
                chosen = frozenset(node.name for node in nodes)
                if any(smaller <= chosen for smaller in found) or (fault.shows and not fault.shows(nodes)):
                    continue
                candidate = with_ops(self.case, chosen)
                if _is_split(candidate) and self.shows(candidate):
                    found.append(chosen)
        return found

    def removable(self) -> list[str]:
        """The ops without any one of which the Case still shows the fault."""
        names = [node.name for node in self.case.graph.ops]
        without = {gone: with_ops(self.case, [name for name in names if name != gone]) for gone in names}
        return [gone for gone, rest in without.items() if rest.graph.ops and _is_split(rest) and self.shows(rest)]

    def targets(self) -> Counter[str]:
        """The ops that the backend gets: the results of an op that the graph returns whole are items of it there."""
        return Counter(op.target for op in planted.ops_of_module(build_graph(self.case.graph, self.prepared.tensors)))


def _is_split(candidate: Case) -> bool:
    """Whether an item of each op with several results is there. An op of which all items are removed is one that no
    program has; where the graph returns its results whole, the backend gets all its items."""
    graph = candidate.graph
    several = [node.name for node in graph.ops if isinstance(node.value, Sequence_)]
    return all(any(graph.node(user).is_op for user in graph.users[name]) for name in several)
