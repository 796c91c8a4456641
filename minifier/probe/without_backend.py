"""What a changed graph evaluates to, by running it without a backend; and which changes leave it a program at all."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from minifier.case import Case, Node, Scalar, State, Symbolic, TensorMeta
from minifier.case.encode import pack, unpack
from minifier.case.inputs import Input
from minifier.case.store import graph_from_text, graph_to_text
from minifier.case.values import Opaque, Sequence_, Symbol, Value
from minifier.fx.build import build_graph
from minifier.fx.node_arguments import meta_of
from minifier.fx.recorded_values import make_inputs
from minifier.passes.edits import Edit
from minifier.probe.prepared_case import PreparedCase
from minifier.probe.set_state import in_state
from minifier.torch_private import outside_transforms

_ONCE = "num_interop_threads"  # which a process can set only once, and which changes no value


class _ValueRecorder(torch.fx.Interpreter):
    """Notes what each node evaluates to. All values are kept, so that no two live in one place by chance."""

    def __init__(self, module: torch.fx.GraphModule) -> None:
        super().__init__(module, garbage_collect_values=False)
        self.values: dict[str, Value] = {}
        self._storages: dict[object, int] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        value = super().run_node(n)
        if n.op != "output":
            with outside_transforms(value) as seen:
                self.values[n.name] = meta_of(seen, self._storages)
        return value


def _as_seen(node: Node, seen: dict[str, Value]) -> Node:
    """The node with the value that was seen; what is symbolic about it stays."""
    value = seen.get(node.name)
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
class _Seen:
    """A Case with values as eager has them, and what eager warned of, without the numbers."""

    case: Case
    warnings: frozenset[str]


def _run(bench: PreparedCase, case: Case) -> _Seen | None:
    """What running the graph without a backend shows; None if it raises."""
    state = replace(case.state, switches=tuple(pair for pair in case.state.switches if pair[0] != _ONCE))
    try:
        values = make_inputs(case.inputs, bench.tensors, bench.recorded)
        with in_state(state), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            observer = _ValueRecorder(build_graph(case.graph, bench.tensors))
            observer.run(*values)
    except Exception:  # noqa: BLE001 - a graph that is no program any more is an answer
        return None
    nodes = tuple(_as_seen(node, observer.values) for node in case.graph.nodes)
    made = replace(case, graph=replace(case.graph, nodes=nodes))
    return _Seen(made, frozenset(re.sub(r"\d+", "", str(each.message)) for each in caught))


def run_without_backend(bench: PreparedCase, case: Case, steps: Sequence[Sequence[Edit]]) -> dict[str, Any]:
    """Makes one change after the other, of each step the first that changes something and leaves a program which runs
    without a backend, and without new warnings (of an argument, say, that has to be given). Gives the Case packed, None
    where no step could be made."""
    first = _run(bench, case)
    found = case
    for edits in steps:
        for edit in edits:
            candidate = edit(found)
            done = _run(bench, candidate) if candidate != found else None
            if done is not None and (first is None or done.warnings <= first.warnings):
                found = done.case
                break
    return {"status": "pass", "case": None if found is case else pack_sections(found)}


def runs(bench: PreparedCase, case: Case) -> dict[str, Any]:
    """The Case as eager has it, packed; None if eager raises."""
    done = _run(bench, case)
    return {"status": "pass", "case": None if done is None else pack_sections(done.case)}


def pack_sections(case: Case) -> dict[str, Any]:
    """What passes change of a Case, as JSON."""
    return {
        "graph": graph_to_text(case.graph),
        "inputs": [pack(item) for item in case.inputs],
        "symbols": pack(case.symbols),
        "symbolic": pack(case.symbolic),
        "state": pack(case.state),
        "mode": case.backend.mode,
        "dynamic": case.backend.dynamic,
        "options": sorted(case.backend.options or {}),
    }


def with_sections(case: Case, parts: dict[str, Any]) -> Case:
    """The Case with the sections that `pack_sections` packed."""
    kept = {key: value for key, value in (case.backend.options or {}).items() if key in parts["options"]}
    backend = replace(case.backend, mode=parts["mode"], dynamic=parts["dynamic"], options=kept or None)
    return replace(
        case,
        graph=graph_from_text(parts["graph"]),
        inputs=unpack(tuple[Input, ...], parts["inputs"]),
        symbols=unpack(tuple[Symbol, ...], parts["symbols"]),
        symbolic=unpack(Symbolic | None, parts["symbolic"]),
        state=unpack(State, parts["state"]),
        backend=backend,
    )
