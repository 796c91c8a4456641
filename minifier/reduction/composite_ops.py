"""Takes ops apart: higher-order ops to their bodies, composite ops to ops of their decomposition."""

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
from minifier.passes.inline import calls, has_branches, holds_calls, inlined
from minifier.probe.prepared_case import PreparedCase
from minifier.reduction.op_search import reduce_ops
from minifier.reduction.probe_runner import ProbeRunner
from minifier.torch_private import parts_of

_MAX_SINGLE_TRIES = 8  # of wrappers inlined alone, if not all can be inlined
_MAX_OPS = 3  # of a graph whose ops are decomposed; each costs a search


def reduce_parts(runner: ProbeRunner, case: Case, budget: search.Budget) -> tuple[Case, search.Ending]:
    """Replace a composite op by ops of its decomposition, if these are no more ops and the failure stays.
    Only for failures while compiling: at run time, cuts would need values that nobody has recorded."""
    ended = search.Ending.PROVED
    hangs = case.failure.fingerprint.kind is Kind.TIMEOUT
    if case.level is not Level.DYNAMO or not case.ignores_values or hangs or runner.repeats > 1:
        return case, ended
    for node in case.graph.ops if len(case.graph.ops) <= _MAX_OPS else ():
        candidate = _decomposed(runner, case, node.name) if isinstance(node.value, TensorMeta) else None
        if candidate is None or len(candidate.graph.ops) <= len(case.graph.ops):
            continue
        with runner.beside("parts", candidate) as keep:
            (judged,) = runner.probe([candidate])
            if judged.verdict is not Verdict.SAME:
                continue
            reduced, result = reduce_ops(runner, candidate, budget)
            if not result.one_minimal:
                return case, result.ended
            if len(reduced.graph.ops) <= len(case.graph.ops):
                keep()
                case = reduced
    return case, ended


def _decomposed(runner: ProbeRunner, case: Case, name: str) -> Case | None:
    """Return the Case with this op fully decomposed; None if that is impossible."""
    alone = with_ops(case, [name])
    if not all(isinstance(item, TensorInput) for item in alone.inputs):
        return None
    (result,) = runner.run([lambda: _decompose(runner.prepared, alone)])
    if result is None or result["graph"] is None:
        return None
    functions = frozenset(function for function in dir(torch) if callable(getattr(torch, function, None)))
    parts = in_words_of_torch(graph_from_text(result["graph"]), functions)
    return with_decomposition(case, name, parts, tuple(node.name for node in alone.graph.placeholders))


def _decompose(prepared: PreparedCase, alone: Case) -> dict[str, Any]:
    """Trace the op's decomposition, in a child; return the graph as text, or None."""
    values = make_inputs(alone.inputs, prepared.tensors, prepared.recorded)
    try:
        graph = read_graph(parts_of(build_graph(alone.graph, prepared.tensors), values), TensorFile())
    except Exception:  # noqa: BLE001 - an op that cannot be traced or serialised stays whole
        return {"status": "pass", "graph": None}
    return {"status": "pass", "graph": graph_to_text(graph)}


def without_wrappers(runner: ProbeRunner) -> None:
    """Replace checkpoints, `cond`s and other wrappers by their bodies, if the failure stays.
    The search can then remove single inner ops, and the repro is shorter."""
    case = runner.prepared.case
    names = calls(case.graph)
    if not names or case.level is not Level.DYNAMO or case.failure.fingerprint.kind is Kind.TIMEOUT:
        return
    for branch in (0, 1) if has_branches(case.graph) else (0,):
        if _fails_as(runner, inlined(case, names, branch)):
            return
    tried: set[str] = set()
    while len(tried) < _MAX_SINGLE_TRIES:
        case = runner.prepared.case
        name = next((name for name in calls(case.graph) if name not in tried), None)
        if name is None:
            break
        tried.add(name)
        if len(names) > 1 and _fails_as(runner, inlined(case, (name,))):
            continue
        if holds_calls(case.graph, name):  # an inner wrapper may be needed, and this outer one not
            _fails_as(runner, inlined(case, (name,), deep=False))


def _fails_as(runner: ProbeRunner, inlined_case: Case) -> bool:
    """Probe this Case, and adopt it if the failure shows."""
    before = runner.prepared.case
    runner.adopt(inlined_case)
    (judged,) = runner.probe([inlined_case])
    if judged.verdict is not Verdict.SAME:
        runner.adopt(before)
    return judged.verdict is Verdict.SAME
