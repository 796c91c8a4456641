"""What is behind the known faults: their programs once more, with the ops of each minimum in eager mode.

A program that works then has no other fault. One that fails has another one, which those have hidden.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from minifier.data.case.store import CASE, load
from minifier.errors import CannotSave
from minifier.flow.hunt.programs import Call, Program
from minifier.flow.hunt.records import Records
from minifier.torch_side.fx.arguments import path_of

Ops = frozenset[tuple[str, str]]
"""Ops of a graph: what a node calls, and its target, as a Case has them."""


@dataclass(frozen=True, slots=True)
class KnownFaults:
    """The ops of each failure that is reduced, by the number of its group, and the programs to try without them.

    Those by name: whether the program's own failure is one of them, or only looks like one.
    """

    ops: Mapping[int, Ops]
    programs: Mapping[str, bool]

    def behind(self, source: str, programs: Iterator[Program]) -> Iterator[Program]:
        """Yield those of the programs of a source that are to be tried, with the ops of the faults in eager mode.

        Scripts are left out: of a script there is no graph to take those from.
        """
        left = {name for name in self.programs if name.startswith(f"{source}:")}
        while left and (program := next(programs, None)) is not None:  # a source may have no end
            if program.name in left and program.script is None:
                left.remove(program.name)
                make = functools.partial(_made, program, self.ops, self.programs[program.name])
                yield replace(program, make=make, behind=tuple(self.ops))


def known_faults(records: Records) -> KnownFaults:
    """Return the faults that are known, and each program that fails like one, as long as nothing explains it wholly."""
    reduced = [group for group in records.groups if group.is_reduced and (group.folder.minimal / CASE).exists()]
    graphs = {group.number: load(group.folder.minimal).graph for group in reduced}
    ops = {n: frozenset((node.op, node.target) for node in graph.ops) for n, graph in graphs.items() if graph.ops}
    open_ones = (each for each in records.groups if not each.is_reduced and not each.is_deadly)
    like = {each.number for each in open_ones if any(map(each.is_like, reduced))}
    explained = {name for name, each in records.behind.items() if each.is_right or each.behind == (*ops,)}
    failing = {each.name: each.group in graphs for each in records.tried if each.group in {*graphs, *like}}
    return KnownFaults(ops, {name: failing[name] for name in failing if ops and name not in explained})


class _Captured(Exception):
    def __init__(self, graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> None:
        self.graph, self.inputs = graph, inputs


def _made(program: Program, faults: Mapping[int, Ops], is_known: bool) -> Call:
    """Make the program: ops in eager mode break its graph. Raises ValueError for a graph that cannot be used so."""

    def capture(graph: torch.fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        def run(*inputs: Any) -> Any:
            raise _Captured(graph, inputs)

        return run

    call = program.make()
    try:
        torch.compile(call.function, backend=capture, fullgraph=True)(*call.tensors)
    except _Captured as captured:
        graph, inputs = captured.graph, captured.inputs
    else:
        raise ValueError("it has no graph")
    finally:
        torch.compiler.reset()
    has = {_op(node) for node in graph.graph.nodes}
    shown = tuple(number for number, ops in faults.items() if ops <= has)
    if not shown:
        raise ValueError("its graph has the ops of no known failure")
    tensors = [each for each in inputs if isinstance(each, torch.Tensor)]
    if len(tensors) < len(inputs):
        raise ValueError("its graph takes more than tensors")
    known = Ops().union(*(faults[number] for number in shown))
    rest = {each for each in has if each[0] in _CALLS} - known
    these_alone = None if is_known else _in_eager(graph, rest)
    return Call(_in_eager(graph, known), "", tensors, shows=shown, these_alone=these_alone)


_CALLS = ("call_function", "call_method")


def _in_eager(graph: torch.fx.GraphModule, ops: Collection[tuple[str, str]]) -> torch.fx.GraphModule:
    """Return a copy of the graph that Dynamo breaks at these ops."""
    broken = copy.deepcopy(graph)
    for node in [node for node in broken.graph.nodes if _op(node) in ops]:
        node.op, node.target = "call_function", _by_eager(_function(node))
    broken.recompile()
    return broken


def _op(node: torch.fx.Node) -> tuple[str, str]:
    if node.op != "call_function" or not callable(node.target):
        return node.op, str(node.target)
    try:
        return node.op, path_of(node.target)
    except CannotSave:
        return node.op, ""


def _function(node: torch.fx.Node) -> Callable[..., Any]:
    return getattr(torch.Tensor, node.target) if isinstance(node.target, str) else node.target


def _by_eager(function: Callable[..., Any]) -> Any:
    def by_eager(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return torch.compiler.disable(by_eager)  # type: ignore[no-untyped-call]
