"""Hands a candidate to its backend, as Dynamo hands over a graph or as AOTAutograd hands over an ATen graph."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from minifier.case import Case, Input, Level, Symbolic, TensorInput
from minifier.case.symbolic_sizes import is_symbolic
from minifier.fx.build import build_graph
from minifier.fx.symbolic_inputs import symbolic_inputs
from minifier.fx.tensors import StoredTensors
from minifier.probe.prepared_case import PreparedCase
from minifier.torch_private import (
    SymbolicSizes,
    add_arguments,
    as_aot_calls_backward,
    as_dynamo_calls,
    as_dynamo_takes,
    call_compiled,
    mark_static,
    observe_backend_calls,
    with_aot_compiler,
)

Compiled = Callable[[Sequence[Any]], Any]
Compiler = Callable[[torch.fx.GraphModule, list[Any]], Any]


def through_dynamo(prepared: PreparedCase, case: Case, on_run: Callable[[], object]) -> Compiled:
    """Return the graph's function under torch.compile, as in a repro. The first call compiles.

    `on_run` is called ahead of each call of the backend's compiled code. Sizes are symbolic if the Case's are.
    """
    observe_backend_calls(lambda _compiler, _gm, _inputs, call: _announced(call(), on_run))
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
    fixed = [] if case.symbolic in (None, Symbolic.GIVEN) else [*map(_fixed_dims, case.inputs)]

    def run(args: Sequence[Any]) -> Any:
        for value, dims in zip(args, fixed, strict=False):
            if dims:
                mark_static(value, dims)
        return compiled(*args)

    return run


def _fixed_dims(item: Input) -> list[int]:
    if not isinstance(item, TensorInput) or item.parameter:  # parameters have fixed sizes anyway
        return []
    symbols = item.meta.symbols or (None,) * len(item.meta.shape)
    return [dim for dim, symbol in enumerate(symbols) if symbol is None]


def _announced(compiled: Callable[..., Any], on_run: Callable[[], object]) -> Callable[..., Any]:
    @functools.wraps(compiled, updated=())
    def run(*args: Any) -> Any:
        on_run()
        return compiled(*args)

    return run


def compile_candidate(prepared: PreparedCase, case: Case, values: Sequence[Any]) -> Compiled:
    """Compile the candidate; return a function of its inputs. Raises the backend's exception."""
    compiler = prepared.compiler(case.backend)
    if case.level is not Level.DYNAMO:
        return _compile_aten(prepared, case, values, compiler)
    module = prepared.module(case.graph)
    add_arguments(module, values)
    with prepared.around_call(values):
        compiled = compiler(module, list(values))
    if not callable(compiled):  # Dynamo's own message
        raise AssertionError("compiler_fn did not return callable")
    compiled = as_dynamo_takes(compiled)
    return lambda args: compiled(*args)


def _compile_aten(prepared: PreparedCase, case: Case, values: Sequence[Any], compiler: Compiler) -> Compiled:
    """Compile an ATen graph with the backend's forward or backward compiler."""
    context: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext
    if is_symbolic(case):
        symbols, module, inputs = _aten_with_symbols(case, values, prepared.tensors)
        context = symbols.around_aten
    else:
        module = build_graph(case.graph, prepared.tensors, prepared.example, key="val")
        inputs = [prepared.example(node) for node in case.graph.placeholders]

    def compile_with(aten_compiler: Callable[..., Any]) -> tuple[Any, BaseException | None]:
        try:
            with as_aot_calls_backward(), context():
                return aten_compiler(module, inputs), None
        except BaseException as error:  # noqa: BLE001 - raised later, where the backend cannot catch it
            return None, error

    # A backend's compiler for a graph depends on whether there are gradients.
    trains = case.state.grad or case.level is Level.AOT_BACKWARD

    def call_backend() -> None:
        graph = torch.fx.Graph()
        graph.output((graph.call_method("clone", (graph.placeholder("x"),)),))
        small = torch.fx.GraphModule(torch.nn.Module(), graph)
        with torch.set_grad_enabled(trains), as_dynamo_calls(prepared.fakes):
            compiler(small, [torch.ones(2, requires_grad=True)])

    compiled, error = with_aot_compiler(call_backend, case.level.value, compile_with)
    if error is not None:
        raise error
    return lambda args: call_compiled(compiled, args)


def _aten_with_symbols(
    case: Case, values: Sequence[Any], tensors: StoredTensors
) -> tuple[SymbolicSizes, torch.fx.GraphModule, list[Any]]:
    """Return (symbols, the Case's ATen graph, its example inputs); the inputs are fake, as in AOTAutograd."""
    symbols, fakes = symbolic_inputs(case, values)
    module = build_graph(case.graph, tensors, lambda node: None)
    _trace(symbols, module, fakes)
    for node in module.graph.nodes:
        if "example_value" in node.meta:
            node.meta["val"] = node.meta.pop("example_value")
    return symbols, module, fakes


def _trace(symbols: SymbolicSizes, module: torch.fx.GraphModule, fakes: Sequence[Any]) -> None:
    grad = torch.is_grad_enabled()
    try:
        symbols.trace(module, fakes)
    except Exception:  # noqa: BLE001, S110 - an op of a cut-out graph may have no fake form; its nodes lack the value
        pass
    finally:
        torch.set_grad_enabled(grad)
