"""The jobs of children: compile and run a candidate, run its graph eagerly, look at its inputs, store them; and find
which changes leave a program that runs without a backend, and with which values."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Collection, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from minifier.data.case import Call, Case, Drawn, Graph, Input, Node, Scalar, State, TensorInput, TensorMeta
from minifier.data.case.graph import tensor_keys
from minifier.data.case.inputs import bases
from minifier.data.case.serial import pack
from minifier.data.case.store import pickled
from minifier.data.case.values import Opaque, Sequence_, Value
from minifier.data.failure import Difference, Kind, Stage
from minifier.data.failure.evidence import stage_shown
from minifier.data.failure.observed import describe, text
from minifier.process.descriptors import after_stack_file
from minifier.process.logs import let_through, overheard
from minifier.reduction.passes.edits import Edit
from minifier.reduction.passes.inputs import is_small
from minifier.reduction.probe.children import end_with, imports_told
from minifier.reduction.probe.prepared_case import PreparedCase, in_modes, in_state, set_globals
from minifier.reduction.probe.program import JobProgress, ProgramOfCalls, run_backward
from minifier.torch_side.compare import BackwardPass, compare
from minifier.torch_side.compare.results import not_in_eager, overwritten
from minifier.torch_side.fx.arguments import meta_of
from minifier.torch_side.fx.graphs import build_graph
from minifier.torch_side.fx.inputs import NotRecorded, Recorder, make_inputs
from minifier.torch_side.fx.tensors import TensorFile
from minifier.torch_side.torch_private import aot, autograd, graphs, inductor, modes


@imports_told()
def evaluate(prepared: PreparedCase, case: Case, until: Stage) -> dict[str, Any]:
    """Compile and run the candidate, and run the Case's backward pass, if any, up to the stage `until`.

    Return {"status": "pass"}, or a failure with stage, links and traceback (differences, after a comparison). Where a
    silent fallback is sought, the answer is {"status": "said", "lines": [[stage, line], ...]} in place of "pass". The
    status is "invalid" if eager fails on the candidate too, a call ahead fails, or an input cannot be made. A candidate
    whose code inductor has written passes, where the sought failure is raised before: to compile it may take minutes.
    An exception raised by this function is a fault of this tool: only the backend's own calls are judged.
    """
    prepared.link_files()
    prepared.know_devices()
    progress = JobProgress()
    if prepared.case.failure.fingerprint.kind is Kind.SIGNAL:
        with after_stack_file():
            modes.print_native_stacks()
    if prepared.case.failure.fingerprint.kind is not Kind.SILENT_FALLBACK:
        return _evaluate(prepared, case, until, progress)
    lines: list[tuple[str, str]] = []
    let_through(prepared.case.failure.message)
    with overheard(lambda said: lines.append((progress.stage.value, said.line)), logging.DEBUG):
        answer = _evaluate(prepared, case, until, progress)
    return answer if answer["status"] != "pass" else {"status": "said", "lines": lines}


def _evaluate(prepared: PreparedCase, case: Case, until: Stage, progress: JobProgress) -> dict[str, Any]:
    set_globals(case.state)  # first, as in a repro: drawn values depend on the default dtype
    try:
        program = ProgramOfCalls(prepared, case, until, progress)
    except NotRecorded as error:
        return {"status": "invalid", "links": [], "traceback": f"eager did not come to {error}"}
    inductor.tame_inductor()
    if until is Stage.COMPILE and not case.before and inductor.raised_ahead_of_loading(prepared.case.failure.traceback):
        inductor.observe_loading(lambda: end_with({"status": "pass"}))
    if case.backward:
        aot.observe_aot_compilers(lambda: None, progress.around_compiler)
    with in_modes(case.state):
        answer = program.make_earlier_calls()
        if answer is None and until is Stage.COMPARE:
            answer = program.compile() or _compare(prepared, program, progress)
        return answer or program.make_last_call() or {"status": "pass"}


def _compare(prepared: PreparedCase, program: ProgramOfCalls, progress: JobProgress) -> dict[str, Any]:
    case, compiled = program.case, program.compiled
    assert compiled is not None, "compiled before"
    progress.enter(Stage.RUN)
    for device in case.accelerators:
        torch.empty(0, device=device)  # the generator of a device has a state only once the device is in use
    over: list[Difference] = []

    def call(*args: Any) -> Any:
        result = compiled(args)
        over.extend(overwritten(program.kept, args, result))
        return result

    def inputs() -> list[Any]:
        return make_inputs(case.inputs, prepared.tensors, prepared.recorded)

    def build(graph: Graph) -> torch.fx.GraphModule:
        return build_graph(graph, prepared.tensors)

    comparison = compare(
        call,
        case.graph,
        inputs,
        build,
        case.measure,
        backward=BackwardPass(before=lambda: progress.enter(Stage.BACKWARD_RUN)) if case.backward else None,
    )
    if comparison.compiled_error is not None:
        progress.stage = comparison.compiled_stage
        if program.by_dynamo and progress.stage is Stage.RUN:
            progress.stage = stage_shown(describe(comparison.compiled_error))
        return progress.failure(comparison.compiled_error)
    if comparison.eager_error is None:
        over = list(not_in_eager(over, lambda: build(case.graph), inputs))
    if differences := (*comparison.differences, *over):
        return {"status": "failure", "stage": Stage.COMPARE.value, "differences": pack(differences)}
    if (error := comparison.eager_error) is not None:
        return {"status": "invalid", "links": describe(error), "traceback": text(error)}
    return {"status": "pass"}


def run_eagerly(
    prepared: PreparedCase, graph: Graph, inputs: Sequence[Input], state: State, wanted: Collection[str], folder: Path
) -> dict[str, Any]:
    """Run the graph without a backend; record the values of the nodes `wanted` into `folder`."""
    prepared.know_devices()
    values = make_inputs(inputs, prepared.tensors, prepared.recorded)
    module = build_graph(graph, prepared.tensors)
    with in_state(state):
        recorder = Recorder(module, wanted, folder)
        try:
            recorder.record(values)
        except Exception as error:  # noqa: BLE001 - the user's graph failing in eager is an answer
            return {"status": "invalid", "links": describe(error), "traceback": text(error), "at": recorder.at}
    return {"status": "pass", "left_out": recorder.left_out}


def run_backward_eagerly(prepared: PreparedCase, case: Case) -> dict[str, Any]:
    """Run the Case's graph and the backward pass of its results without a backend."""
    prepared.know_devices()
    values = make_inputs(case.inputs, prepared.tensors, prepared.recorded)
    module = build_graph(case.graph, prepared.tensors)
    with in_state(case.state):
        try:
            run_backward(module(*values))
        except Exception as error:  # noqa: BLE001 - the user's graph failing in eager is an answer
            return {"status": "invalid", "links": describe(error), "traceback": text(error)}
    return {"status": "pass"}


def compare_fake_kernels(prepared: PreparedCase, case: Case) -> dict[str, Any]:
    """Run the Case without a backend; return {"op", "how"} of `wrong_fake_kernel`."""
    prepared.know_devices()
    values = make_inputs(case.inputs, prepared.tensors, prepared.recorded)

    def call() -> None:
        result = build_graph(case.graph, prepared.tensors)(*values)
        if case.backward:
            run_backward(result)

    with in_state(case.state):
        op, how = graphs.wrong_fake_kernel(call)
    return {"status": "pass", "op": op, "how": how}


def look_at_inputs(prepared: PreparedCase, inputs: Sequence[Input]) -> dict[str, Any]:
    """Return bounds of tensors, and values of small ones: {"facts": {name: [low, high, values or None]}}."""
    prepared.know_devices()
    facts: dict[str, Any] = {}
    for item, tensor in zip(inputs, make_inputs(inputs, prepared.tensors, prepared.recorded), strict=True):
        if not isinstance(tensor, torch.Tensor) or tensor.is_complex():
            continue
        value = tensor.detach()
        try:
            finite = value[torch.isfinite(value)] if value.is_floating_point() else value
            low, high = (finite.min().item(), finite.max().item()) if finite.numel() else (None, None)
        except (NotImplementedError, RuntimeError):  # the dtype lacks these ops
            continue
        small = is_small(value.numel()) and finite.numel() == value.numel()
        facts[item.name] = [low, high, value.flatten().tolist() if small else None]
    return {"status": "pass", "facts": facts}


def store_inputs(prepared: PreparedCase, inputs: Sequence[Input], graph: Graph, path: Path) -> dict[str, Any]:
    """Write the tensors that a Case needs to a file; return {"stored": {name: the fields of Stored}}."""
    prepared.know_devices()
    values = make_inputs(inputs, prepared.tensors, prepared.recorded)
    file = TensorFile()
    needed = {
        item.name: value
        for item, value in zip(inputs, values, strict=True)
        if isinstance(item, TensorInput) and not isinstance(item.source, Drawn)
    }
    stored = file.add_inputs(needed, {item.name for item in inputs if isinstance(item, TensorInput) and item.storage})
    views = {name: base.name for name, base in bases(inputs).items()}
    stored = {name: replace(source, base=views.get(name)) for name, source in stored.items()}
    for key in tensor_keys(graph):
        file.add(key, prepared.tensors.get(key))
    file.write(path)
    return {"status": "pass", "stored": {name: astuple(source) for name, source in stored.items()}}


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
            with autograd.outside_transforms(value) as plain_value:
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
    New warnings (of a missing argument, for example) rule an edit out. Return the Case pickled, or None."""
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
    return {"status": "pass", "case": None if changed is case else pickled(changed)}


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
    """Run the Case eagerly; return it pickled, with the values of that run, or None after an exception."""
    eager = _run(prepared, case)
    return {"status": "pass", "case": None if eager is None else pickled(eager.case)}
