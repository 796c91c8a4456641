"""How a candidate goes to its backend: as Dynamo hands over its graph, or as AOTAutograd hands over one of its own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import torch

from minifier.case import Case, Level
from minifier.case.symbolic_sizes import is_symbolic
from minifier.fx.build import build_graph
from minifier.probe.prepared_case import PreparedCase
from minifier.probe.symbolic import aten_with_symbols, call_with_symbols
from minifier.torch_private import (
    as_aot_calls_backward,
    as_dynamo_calls,
    call_compiled,
    with_aot_compiler,
)

Compiled = Callable[[Sequence[Any]], Any]


def compile_candidate(bench: PreparedCase, case: Case, values: Sequence[Any]) -> Compiled:
    """Compiles the candidate; gives a function of its inputs. Raises what the backend raises."""
    compiler = bench.compiler(case.backend)
    if case.level is not Level.DYNAMO:
        return _compile_part(bench, case, values, compiler)
    if is_symbolic(case):
        compiled, needed = call_with_symbols(compiler, case, values, bench.tensors)
    else:
        module = bench.module(case.graph)
        with bench.around_call(values):
            compiled, needed = compiler(module, list(values)), list
    if not callable(compiled):  # Dynamo's own words
        raise AssertionError("compiler_fn did not return callable")
    return lambda args: compiled(*needed(args))


def _compile_part(bench: PreparedCase, case: Case, values: Sequence[Any], compiler: Callable[..., Any]) -> Compiled:
    """Gives an ATen graph to the forward or backward compiler that the backend has for such graphs."""
    around: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext
    if is_symbolic(case):
        symbols, module, inputs = aten_with_symbols(case, values, bench.tensors)
        around = symbols.around_aten
    else:
        module = build_graph(case.graph, bench.tensors, bench.example, key="val")
        inputs = [bench.example(node) for node in case.graph.placeholders]

    def work(part: Callable[..., Any]) -> tuple[Any, BaseException | None]:
        try:
            with as_aot_calls_backward(), around():
                return part(module, inputs), None
        except BaseException as error:  # noqa: BLE001 - raised again outside of what the backend may catch
            return None, error

    # Whether there are gradients decides to which of the backend's compilers a graph goes.
    trains = case.state.grad or case.level is Level.AOT_BACKWARD

    def call_backend() -> None:
        graph = torch.fx.Graph()
        graph.output((graph.call_method("clone", (graph.placeholder("x"),)),))
        small = torch.fx.GraphModule(torch.nn.Module(), graph)
        with torch.set_grad_enabled(trains), as_dynamo_calls(bench.fakes):
            compiler(small, [torch.ones(2, requires_grad=True)])

    compiled, error = with_aot_compiler(call_backend, case.level.value, work)
    if error is not None:
        raise error
    return lambda args: call_compiled(compiled, args)
