"""Runs changed graphs without a backend: which changes leave a runnable program, and with which values?"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from minifier.data.case import Call, Case, Node, Scalar, TensorMeta
from minifier.data.case.store import edit_from
from minifier.data.case.values import Opaque, Sequence_, Value
from minifier.reduction.passes.edits import Edit
from minifier.reduction.probe.prepared_case import PreparedCase, in_state
from minifier.torch_side.fx.arguments import meta_of
from minifier.torch_side.fx.graphs import build_graph
from minifier.torch_side.fx.inputs import make_inputs
from minifier.torch_side.torch_private.autograd import outside_transforms

_SETTABLE_ONCE = "num_interop_threads"  # skipped: it changes no value


class _ValueRecorder(torch.fx.Interpreter):
    """Records the metadata of each node's value. All values stay alive, so that no two share a storage by chance."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module, garbage_collect_values=False)
        self.values: dict[str, Value] = {}
        self._storages: dict[object, int] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        value = super().run_node(n)
        if n.op != "output":
            with outside_transforms(value) as plain_value:
                self.values[n.name] = meta_of(plain_value, self._storages)
        return value


def _with_value(node: Node, values: dict[str, Value]) -> Node:
    """Return the node with its recorded value; its symbols stay."""
    value = values.get(node.name)
    if value is None or isinstance(node.value, Opaque):
        return node
    return replace(node, value=_with_symbols(value, node.value))


def _with_symbols(value: Value, old: Value) -> Value:
    if isinstance(value, TensorMeta) and isinstance(old, TensorMeta) and len(old.symbols) == len(value.shape):
        return replace(value, symbols=old.symbols)
    if isinstance(value, Scalar) and isinstance(old, Scalar):
        return replace(value, symbol=old.symbol)
    if isinstance(value, Sequence_) and isinstance(old, Sequence_) and len(value.items) == len(old.items):
        return Sequence_(tuple(map(_with_symbols, value.items, old.items)))
    return value


@dataclass(frozen=True, slots=True)
class _EagerRun:
    """A Case with the values of an eager run, and the warnings of that run, without their numbers."""

    case: Case
    warnings: frozenset[str]


def _run(prepared: PreparedCase, case: Case) -> _EagerRun | None:
    """Run the graph without a backend; return None after an exception."""
    state = replace(case.state, switches=tuple(pair for pair in case.state.switches if pair[0] != _SETTABLE_ONCE))
    try:
        values = make_inputs(case.inputs, prepared.tensors, prepared.recorded)
        with in_state(state), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            recorder = _ValueRecorder(build_graph(case.graph, prepared.tensors))
            recorder.run(*values)
    except Exception:  # noqa: BLE001 - a graph that is no longer runnable is an answer
        return None
    nodes = tuple(_with_value(node, recorder.values) for node in case.graph.nodes)
    case = replace(case, graph=replace(case.graph, nodes=nodes))
    return _EagerRun(case, frozenset(re.sub(r"\d+", "", str(each.message)) for each in caught))


def run_without_backend(prepared: PreparedCase, case: Case, steps: Sequence[Sequence[Edit]]) -> dict[str, Any]:
    """Make an edit of each step: the first that changes the Case and leaves a program that runs without a backend.
    New warnings (of a missing argument, for example) rule an edit out. Return the edit of `case`, or None."""
    first = _run(prepared, case)
    changed = case
    for edits in steps:
        for edit in edits:
            candidate = edit(changed)
            eager = _run(prepared, candidate) if candidate != changed else None
            before = _earlier_calls(prepared, candidate, changed.before) if eager is not None else None
            if eager is not None and before is not None and (first is None or eager.warnings <= first.warnings):
                changed = replace(eager.case, before=before)
                break
    return {"status": "pass", "case": None if changed is case else edit_from(case, changed)}


def _earlier_calls(prepared: PreparedCase, case: Case, known: Sequence[Call]) -> tuple[Call, ...] | None:
    """Return the Case's earlier calls with the values of an eager run; None if one that is not known raises."""
    calls = []
    for call in case.before:
        if call.graph is None or call in known:
            calls.append(call)
        elif (eager := _run(prepared, case.of(call))) is not None:
            calls.append(replace(call, graph=eager.case.graph))
        else:
            return None
    return tuple(calls)


def runs(prepared: PreparedCase, case: Case) -> dict[str, Any]:
    """Run the Case eagerly; return the edit that gives it the values of that run, or None after an exception."""
    eager = _run(prepared, case)
    return {"status": "pass", "case": None if eager is None else edit_from(case, eager.case)}
