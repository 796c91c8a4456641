"""The jobs of children: compile and run a candidate, run its graph eagerly, look at its inputs, store them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import torch

from minifier.case import Case, Drawn, Graph, Input, Level, State, TensorInput
from minifier.case.as_function import as_function
from minifier.case.compiled_sizes import inputs_at_compilation
from minifier.case.encode import pack
from minifier.case.graph import refs_in, tensor_keys
from minifier.case.inputs import bases
from minifier.case.symbolic_sizes import goes_through_dynamo
from minifier.compare import BackwardPass, compare
from minifier.compare.results import leaves, wait_for_devices
from minifier.failure import Difference, Kind, Stage
from minifier.failure.observed import describe, text
from minifier.failure.stage import stage_shown
from minifier.fx.build import build_graph
from minifier.fx.recorded_values import NotRecorded, Recorder, make_inputs, without_sharing
from minifier.fx.tensors import TensorFile
from minifier.passes.data import is_small
from minifier.probe.backward_pass import run_backward
from minifier.probe.compiling import Compiled, compile_candidate, through_dynamo
from minifier.probe.life import imports_told, tell
from minifier.probe.prepared_case import PreparedCase
from minifier.probe.run_ahead import make_calls_ahead
from minifier.probe.set_state import in_modes, in_state, set_globals
from minifier.process.logs import let_through, overheard
from minifier.torch_private import (
    NoCompiler,
    as_while_compiling,
    backend_error,
    observe_aot_compilers,
    print_native_stacks,
    tame_inductor,
)


class _JobProgress:
    """The current stage of a candidate, reported to the parent in advance, so that a death has a stage."""

    def __init__(self) -> None:
        self.stage = Stage.COMPILE
        self.failed_at: Stage | None = None

    def enter(self, stage: Stage) -> None:
        self.stage = stage
        tell(stage=stage.value)

    def around_compiler(self, _token: None, part: str, _gm: Any, _inputs: Any, call: Callable[[], Any]) -> Any:
        """Wrap AOTAutograd's call of a compiler: a backward graph is compiled during another stage."""
        if part != Level.AOT_BACKWARD.value:
            return call()
        before = self.stage
        self.enter(Stage.BACKWARD_COMPILE)
        try:
            compiled = call()
        except BaseException:
            self.failed_at = Stage.BACKWARD_COMPILE
            raise
        self.enter(before)
        return compiled

    def failure(self, error: BaseException) -> dict[str, Any]:
        """Return the answer for an exception of the backend."""
        inner = backend_error(error)
        stage = self.failed_at or self.stage
        return {"status": "failure", "stage": stage.value, "links": describe(inner), "traceback": text(inner)}


_STAGES = {  # of compiling and running, by the graph's level
    Level.DYNAMO: (Stage.COMPILE, Stage.RUN),
    Level.AOT_FORWARD: (Stage.COMPILE, Stage.RUN),
    Level.AOT_BACKWARD: (Stage.BACKWARD_COMPILE, Stage.BACKWARD_RUN),
}


def evaluate(prepared: PreparedCase, case: Case, until: Stage) -> dict[str, Any]:
    """Compile and run the candidate, and run the Case's backward pass, if any, up to the stage `until`.

    Return {"status": "pass"}, or a failure with stage, links and traceback (differences, after a comparison). Where a
    silent fallback is sought, the answer is {"status": "said", "lines": [[stage, line], ...]} in place of "pass". The
    status is "invalid" if eager fails on the candidate too, a call ahead fails, or an input cannot be made. An
    exception raised by this function is a fault of this tool: only the backend's own calls are judged.
    """
    prepared.know_devices()
    progress = _JobProgress()
    if prepared.case.failure.fingerprint.kind is Kind.SIGNAL:
        print_native_stacks()
    if prepared.case.failure.fingerprint.kind is not Kind.SILENT_FALLBACK:
        return _evaluate(prepared, case, until, progress)
    lines: list[tuple[str, str]] = []
    let_through(prepared.case.failure.message)
    with overheard(lambda said: lines.append((progress.stage.value, said.line)), logging.DEBUG):
        answer = _evaluate(prepared, case, until, progress)
    return answer if answer["status"] != "pass" else {"status": "said", "lines": lines}


def _evaluate(prepared: PreparedCase, case: Case, until: Stage, progress: _JobProgress) -> dict[str, Any]:
    by_dynamo = goes_through_dynamo(case)
    if by_dynamo:
        case = as_function(case)
    compiling, running = _STAGES[case.level]
    set_globals(case.state)  # first, as in a repro: drawn values depend on the default dtype
    try:
        if case.calls > 1:
            values = make_inputs(case.inputs, prepared.tensors, prepared.recorded)
            if until is Stage.COMPARE:
                values = without_sharing(values)
        else:
            values = make_inputs(case.inputs, prepared.tensors, prepared.recorded, own=False, ready=prepared.ready)
    except NotRecorded as error:
        return {"status": "invalid", "links": [], "traceback": f"eager did not come to {error}"}
    tame_inductor()
    if case.backward:
        observe_aot_compilers(lambda: None, progress.around_compiler)
    with in_modes(case.state):
        if (answer := make_calls_ahead(prepared, case, case.early)) is not None:
            return answer
        progress.enter(compiling)
        try:
            if by_dynamo:
                compiled = through_dynamo(prepared, case, lambda: progress.enter(running))
            else:
                with as_while_compiling():
                    compiled = compile_candidate(prepared, case, values)
        except NoCompiler:
            raise
        except BaseException as error:  # noqa: BLE001 - whatever the backend raises is judged
            return progress.failure(error)
        if until is compiling and not by_dynamo:
            return {"status": "pass"}
        if (answer := _first_call(prepared, case, compiled)) is not None:
            return answer
        if until is Stage.COMPARE:
            return _compare(prepared, case, compiled, progress)
        for call in range(case.calls):
            if call == case.calls - 1 and (answer := make_calls_ahead(prepared, case, case.late)) is not None:
                return answer
            inputs = make_inputs(case.inputs, prepared.tensors, prepared.recorded) if call else values
            if not by_dynamo:
                progress.enter(running)
            try:
                result = compiled(inputs)
                if case.backward:
                    progress.enter(Stage.BACKWARD_RUN)
                    run_backward(result)
                wait_for_devices([*inputs, *leaves(result)[0]])
            except BaseException as error:  # noqa: BLE001 - as above
                if by_dynamo and progress.stage in (compiling, running):
                    progress.stage = stage_shown(describe(error))
                return progress.failure(error)
    return {"status": "pass"}


def _first_call(prepared: PreparedCase, case: Case, compiled: Compiled) -> dict[str, Any] | None:
    """Make the call that compiles the graph with other sizes, if any. Return the probe's answer if it fails."""
    inputs = inputs_at_compilation(case)
    try:
        if inputs:
            result = compiled(make_inputs(inputs, prepared.tensors, prepared.recorded))
            if case.backward:
                run_backward(result)
    except BaseException as error:  # noqa: BLE001 - whatever the backend raises, the failing call is not reached
        return {"status": "invalid", "links": describe(error), "traceback": text(error)}
    return None


def _compare(prepared: PreparedCase, case: Case, compiled: Compiled, progress: _JobProgress) -> dict[str, Any]:
    """Compare the last call of the compiled candidate with eager.

    The inputs of earlier calls share no memory: a backend may assume the same sharing in later calls.
    """
    progress.enter(Stage.RUN)
    try:
        for _ in range(case.calls - 1):
            compiled(without_sharing(make_inputs(case.inputs, prepared.tensors, prepared.recorded)))
    except BaseException as raised:  # noqa: BLE001 - whatever the backend raises is judged
        return progress.failure(raised)
    if (answer := make_calls_ahead(prepared, case, case.late)) is not None:
        return answer
    progress.enter(Stage.RUN)
    for device in case.accelerators:
        torch.empty(0, device=device)  # the generator of a device has a state only once the device is in use
    comparison = compare(
        lambda *args: compiled(args),
        case.graph,
        lambda: make_inputs(case.inputs, prepared.tensors, prepared.recorded),
        lambda graph: build_graph(graph, prepared.tensors),
        case.measure,
        backward=BackwardPass(before=lambda: progress.enter(Stage.BACKWARD_RUN)) if case.backward else None,
    )
    if comparison.compiled_error is not None:
        progress.stage = comparison.compiled_stage
        return progress.failure(comparison.compiled_error)
    if differences := _of_results(prepared, case, comparison.differences):
        return {"status": "failure", "stage": Stage.COMPARE.value, "differences": pack(differences)}
    if (error := comparison.eager_error) is not None:
        return {"status": "invalid", "links": describe(error), "traceback": text(error)}
    return {"status": "pass"}


def _of_results(prepared: PreparedCase, case: Case, differences: Sequence[Difference]) -> tuple[Difference, ...]:
    """Return the differences, except for values that the whole graph's results do not depend on."""
    if not prepared.innocent:
        return tuple(differences)
    outputs = list(refs_in(case.graph.output.args))
    ignored = {f"output {i}" for i, name in enumerate(outputs) if name in prepared.innocent}
    return tuple(difference for difference in differences if difference.where not in ignored)


def evaluate_and_tell(prepared: PreparedCase, case: Case, until: Stage) -> dict[str, Any]:
    """Call `evaluate`, and report the modules imported meanwhile."""
    with imports_told():
        return evaluate(prepared, case, until)


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
