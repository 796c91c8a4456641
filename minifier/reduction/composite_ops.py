"""Composite ops that are left: whether the failure needs all of their parts."""

from __future__ import annotations

from typing import Any

import torch

from minifier import search
from minifier.case import Case, Level, TensorInput, TensorMeta
from minifier.case.ops import with_ops
from minifier.case.store import graph_from_text, graph_to_text
from minifier.failure import Kind, Verdict
from minifier.fx.build import build_graph
from minifier.fx.read import read_graph
from minifier.fx.recorded_values import make_inputs
from minifier.fx.tensors import TensorFile
from minifier.passes.decompose import in_words_of_torch, with_decomposition
from minifier.probe.prepared_case import PreparedCase
from minifier.reduction.op_search import Limit, reduce_ops
from minifier.reduction.probe_runner import ProbeRunner
from minifier.torch_private import parts_of

_MOST = 3  # ops that are left, of which each is tried


def reduce_parts(lab: ProbeRunner, case: Case, limit: Limit) -> tuple[Case, search.Ending]:
    """The Case with a composite op replaced by some of its parts, if the failure does not need all of them and no more
    ops are left than before. Of failures of compiling alone: others would need values that nobody has recorded."""
    ended = search.Ending.PROVED
    kind, stage = case.failure.fingerprint.kind, case.failure.fingerprint.stage
    if case.level is not Level.DYNAMO or not stage.compiles or kind is Kind.TIMEOUT or lab.repeats > 1:
        return case, ended
    for node in case.graph.ops if len(case.graph.ops) <= _MOST else ():
        candidate = _in_parts(lab, case, node.name) if isinstance(node.value, TensorMeta) else None
        if candidate is None or len(candidate.graph.ops) <= len(case.graph.ops):
            continue
        with lab.beside("parts", candidate) as keep:
            (judged,) = lab.probe([candidate])
            if judged.verdict is not Verdict.SAME:
                continue
            reduced, result = reduce_ops(lab, candidate, limit, {})
            if not result.one_minimal:
                return case, result.ended
            if len(reduced.graph.ops) <= len(case.graph.ops):
                keep()
                case = reduced
    return case, ended


def _in_parts(lab: ProbeRunner, case: Case, name: str) -> Case | None:
    alone = with_ops(case, [name])
    if not all(isinstance(item, TensorInput) for item in alone.inputs):
        return None
    (told,) = lab.run([lambda: _look(lab.bench, alone)])
    if told is None or told["graph"] is None:
        return None
    functions = frozenset(found for found in dir(torch) if callable(getattr(torch, found, None)))
    parts = in_words_of_torch(graph_from_text(told["graph"]), functions)
    return with_decomposition(case, name, parts, tuple(node.name for node in alone.graph.placeholders))


def _look(bench: PreparedCase, alone: Case) -> dict[str, Any]:
    """The graph of the op's parts, as text; None where there is none."""
    values = make_inputs(alone.inputs, bench.tensors, bench.recorded)
    try:
        graph = read_graph(parts_of(build_graph(alone.graph, bench.tensors), values), TensorFile())
    except Exception:  # noqa: BLE001 - an op that cannot be traced, or whose parts cannot be written down, stays whole
        return {"status": "pass", "graph": None}
    return {"status": "pass", "graph": graph_to_text(graph)}
