"""A candidate as a program of calls: how each graph is handed to its backend, and when."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch

from minifier.data.case import Call, Case, Input, Symbolic, TensorInput
from minifier.data.case.calls import as_function, inputs_of
from minifier.data.case.expressions import dynamic_dims
from minifier.data.case.symbolic_sizes import goes_through_dynamo, is_symbolic
from minifier.data.failure import Aspect, Stage
from minifier.data.failure.evidence import stage_shown
from minifier.data.failure.observed import describe, text
from minifier.reduction.probe.children import AHEAD, tell
from minifier.reduction.probe.prepared_case import PreparedCase
from minifier.torch_side.compare.results import leaves, wait_for_devices
from minifier.torch_side.fx.graphs import build_graph
from minifier.torch_side.fx.inputs import make_inputs, without_sharing
from minifier.torch_side.torch_private import aot, dynamo, graphs, modes

Answer = dict[str, Any]


class JobProgress:
    """The current stage of a candidate, reported to the parent in advance, so that a death has a stage."""

    def __init__(self) -> None:
        self.stage = Stage.COMPILE
        self.failed_at: Stage | None = None
        self._is_ahead = False

    def enter(self, stage: Stage) -> None:
        """Note the stage; during calls of other graphs, none is entered."""
        if not self._is_ahead:
            self.stage = stage
            tell(stage=stage.value)

    @contextlib.contextmanager
    def ahead(self) -> Iterator[None]:
        """Say within the block that another graph than the Case's is at work."""
        tell(stage=AHEAD)
        self._is_ahead = True
        try:
            yield
        finally:
            self._is_ahead = False

    def around_compiler(self, _token: None, part: str, _gm: Any, _inputs: Any, call: Callable[[], Any]) -> Any:
        """Wrap AOTAutograd's call of a compiler: a backward graph is compiled during another stage."""
        if part != aot.BACKWARD:
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
        inner = dynamo.backend_error(error)
        stage = self.failed_at or self.stage
        return {"status": "failure", "stage": stage.value, "links": describe(inner), "traceback": text(inner)}


class ProgramOfCalls:
    """The calls of a candidate in this process, up to `stage`, that of the sought failure.

    An answer is a failure of the Case's own graph, or "invalid" for any other exception before the last call. It is
    None after a call that returns. `kept` are the outputs of the earlier calls of the Case's own graph, if the sought
    failure is that a call writes over them. `by_dynamo`: the first call compiles.
    """

    def __init__(self, prepared: PreparedCase, case: Case, stage: Stage, progress: JobProgress) -> None:
        self._prepared, self._progress, self._until = prepared, progress, stage
        self.by_dynamo = goes_through_dynamo(case)
        self.case = as_function(case) if self.by_dynamo else case
        self._ready: Sequence[Any] | None = self._made(self.case.calls > 1)
        self.compiled: Compiled | None = None
        self._keeps = prepared.case.failure.fingerprint.message == Aspect.OVERWRITTEN.value
        self.kept: list[Any] = []

    def compile(self) -> Answer | None:
        """Compile the Case's own graph, unless that is done. Dynamo compiles at the first call."""
        if self.compiled is not None:
            return None
        self._progress.enter(Stage.COMPILE)
        try:
            if self.by_dynamo:
                self.compiled = through_dynamo(self._prepared, self.case, lambda: self._progress.enter(Stage.RUN))
            else:
                assert self._ready is not None, "made for the first call"
                with modes.as_while_compiling():
                    self.compiled = compile_candidate(self._prepared, self.case, self._ready, self._until)
        except BaseException as error:  # noqa: BLE001 - whatever the backend raises is judged
            return self._progress.failure(error) if self.by_dynamo or dynamo.is_failure(error) else _invalid(error)
        return None

    def make_earlier_calls(self) -> Answer | None:
        """Make all calls before the last; return the answer of the first that raises."""
        for call in self.case.before:
            own = self._call_with_other_inputs if call.has_other_inputs else self._repeat
            make = self._call_other if call.graph is not None else own
            if (answer := make(call)) is not None:
                return answer
            if call.pause:
                time.sleep(call.pause)
        return None

    def make_last_call(self) -> Answer | None:
        """Compile the Case's own graph, and call it unless the compilation is all that is judged."""
        return self.compile() if self._until is Stage.COMPILE and not self.by_dynamo else self._call()

    def _call(self) -> Answer | None:
        """Call what the Case's own graph became, and run the backward pass of its results if the Case has one."""
        if (answer := self.compile()) is not None:
            return answer
        assert self.compiled is not None, "compiled just now"
        ready, self._ready = self._ready, None
        if ready is None or self._until is Stage.COMPARE:  # there, random numbers begin anew after the compilation
            ready = self._made(True)
        if not self.by_dynamo:
            self._progress.enter(Stage.RUN)
        try:
            result = self.compiled(ready)
            if self.case.backward:
                self._progress.enter(Stage.BACKWARD_RUN)
                run_backward(result)
            wait_for_devices([*ready, *leaves(result)[0]])
            self.kept += leaves(result)[0] if self._keeps else []
        except BaseException as error:  # noqa: BLE001 - whatever the backend raises is judged
            if self.by_dynamo and self._progress.stage in (Stage.COMPILE, Stage.RUN):
                self._progress.stage = stage_shown(describe(error))
            return self._progress.failure(error)
        return None

    def _made(self, several: bool) -> list[Any]:
        """Return inputs of the Case's own graph. With several calls each has its own, which share no memory where
        results are compared: a backend may assume the same sharing in later calls."""
        prepared, case = self._prepared, self.case
        if not several:
            return make_inputs(case.inputs, prepared.tensors, prepared.recorded, own=False, ready=prepared.ready)
        values = make_inputs(case.inputs, prepared.tensors, prepared.recorded)
        return without_sharing(values) if self._until is Stage.COMPARE else values

    def _repeat(self, call: Call) -> Answer | None:
        answers = (self._call() for _ in range(call.times))
        return next((answer for answer in answers if answer is not None), None)

    def _call_with_other_inputs(self, call: Call) -> Answer | None:
        if (answer := self.compile()) is not None:
            return answer
        assert self.compiled is not None, "compiled just now"
        return self._called(self.compiled, inputs_of(self.case, call), call.times, self.case.backward)

    def _call_other(self, call: Call) -> Answer | None:
        with self._progress.ahead():
            other = self.case.of(call)
            try:
                if goes_through_dynamo(other):
                    compiled = compiled_by_dynamo(self._prepared, other)
                else:
                    with modes.as_while_compiling():
                        compiled = compile_candidate(self._prepared, other, self._values(call.inputs), self._until)
            except BaseException as error:  # noqa: BLE001 - as below
                return _invalid(error)
            return self._called(compiled, call.inputs, call.times, call.backward)

    def _called(self, compiled: Compiled, inputs: Sequence[Input], times: int, backward: bool) -> Answer | None:
        try:
            for _ in range(times):
                result = compiled(self._values(inputs))
                if backward:
                    run_backward(result)
        except BaseException as error:  # noqa: BLE001 - whatever the backend raises, the failing call is not reached
            return _invalid(error)
        return None

    def _values(self, inputs: Sequence[Input]) -> list[Any]:
        return make_inputs(inputs, self._prepared.tensors, self._prepared.recorded)


def _invalid(error: BaseException) -> Answer:
    return {"status": "invalid", "links": describe(error), "traceback": text(error)}


def run_backward(result: Any) -> None:
    """Run the backward pass of all results that require grad, with random tangents."""
    outputs = [leaf for leaf in leaves(result)[0] if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    if outputs:
        torch.autograd.backward(outputs, [torch.randn_like(leaf) for leaf in outputs])


Compiled = Callable[[Sequence[Any]], Any]
Compiler = Callable[[torch.fx.GraphModule, list[Any]], Any]


def through_dynamo(prepared: PreparedCase, case: Case, on_run: Callable[[], object]) -> Compiled:
    """Return the graph's function under torch.compile, as in a repro. The first call compiles.

    `on_run` is called ahead of each call of the backend's compiled code. Sizes are symbolic if the Case's are.
    """
    dynamo.observe_backend_calls(lambda _compiler, _gm, _inputs, call: _announced(call(), on_run))
    return compiled_by_dynamo(prepared, case)


def compiled_by_dynamo(prepared: PreparedCase, case: Case) -> Compiled:
    """Return the graph's function under torch.compile. The first call compiles.

    `dynamic=True` makes symbols at once, where a script needs an earlier call; sizes without a symbol stay fixed.
    """
    module = build_graph(case.graph, prepared.tensors, names=case.graph.input_names)
    function = torch.fx.GraphModule(module, module.graph).forward  # Dynamo's class writes its code at the first call
    is_dynamic = case.symbolic is not None or is_symbolic(case)
    backend, dynamic = case.backend, True if is_dynamic else case.backend.dynamic
    compiled = torch.compile(function, backend=prepared.compiler(replace(backend, dynamic=dynamic)), dynamic=dynamic)
    fixed = [] if case.symbolic is None else [_fixed_dims(case, item) for item in case.inputs]

    def run(args: Sequence[Any]) -> Any:
        for value, dims in zip(args, fixed, strict=False):
            if dims:
                graphs.mark_static(value, dims)
        return compiled(*args)

    return run


def _fixed_dims(case: Case, item: Input) -> list[int]:
    if not isinstance(item, TensorInput) or item.parameter or case.symbolic is Symbolic.GIVEN:
        return []  # Dynamo tells by itself, of parameters as well
    return [*{*range(len(item.meta.shape))}.difference(dynamic_dims(case, item))]


def _announced(compiled: Callable[..., Any], on_run: Callable[[], object]) -> Callable[..., Any]:
    @functools.wraps(compiled, updated=())
    def run(*args: Any) -> Any:
        on_run()
        return compiled(*args)

    return run


def compile_candidate(prepared: PreparedCase, case: Case, values: Sequence[Any], until: Stage) -> Compiled:
    """Compile the candidate; return a function of its inputs. Raises the backend's exception.

    Dynamo also writes the code of a lazy graph module then, which takes longer than all else. Here that waits for a
    call where the compilation is all that is judged.
    """
    compiler = prepared.compiler(case.backend)
    module = prepared.module(case.graph)
    graphs.add_arguments(module, values)
    with prepared.around_call(values):
        compiled = compiler(module, list(values))
    if not callable(compiled):  # Dynamo's own message
        raise AssertionError("compiler_fn did not return callable")
    if until is not Stage.COMPILE:
        compiled = dynamo.as_dynamo_takes(compiled)
    return lambda args: dynamo.outputs_dynamo_takes(dynamo.as_dynamo_takes(compiled)(*args), *case.graph.output.args)
