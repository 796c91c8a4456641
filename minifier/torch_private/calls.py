"""Dynamo's calls of backends, and its wrappers around backends."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._dynamo import exc as dynamo_exc
from torch._dynamo.output_graph import OutputGraph
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.utils import checkpoint

# Raised inside a backend to make Dynamo trace again or skip the frame; not failures.
_PROTOCOL = (
    dynamo_exc.RestartAnalysis,
    dynamo_exc.SkipFrame,
    dynamo_exc.TensorifyScalarRestartAnalysis,
    dynamo_exc.Unsupported,
    checkpoint._StopRecomputationError,  # a checkpoint has recomputed enough and ends the call
    KeyboardInterrupt,
)


def is_failure(error: BaseException) -> bool:
    """Whether an exception from a backend call is a failure, not part of torch's own protocol."""
    return not isinstance(error, _PROTOCOL)


def backend_error(error: BaseException) -> BaseException:
    """Return the backend's exception without Dynamo's wrapper."""
    return error.inner_exception if isinstance(error, dynamo_exc.BackendCompilerFailed) else error


# torch.compile's wrappers around backends, which pass on mode= and options=; untyped in torch.
_INDUCTOR_WRAPPER: Callable[..., Any] = torch._TorchCompileInductorWrapper
_BACKEND_WRAPPER: Callable[..., Any] = torch._TorchCompileWrapper

Call = Callable[[], Callable[..., Any]]
Observe = Callable[[Any, torch.fx.GraphModule, Sequence[Any], Call], Callable[..., Any]]


def observe_backend_calls(observe: Observe) -> Callable[[], None]:
    """Wrap every backend call of this process in `observe(compiler_fn, graph_module, example_inputs, call)`.

    `observe` must call `call()` and return its result, perhaps wrapped. Return a function that ends this. Observers
    must end in reverse order.
    """
    original = OutputGraph.call_user_compiler

    def call_user_compiler(self: Any, gm: torch.fx.GraphModule, example_inputs: Any) -> Any:
        return observe(
            self.compiler_fn, gm, example_inputs, lambda: as_dynamo_takes(original(self, gm, example_inputs))
        )

    OutputGraph.call_user_compiler = call_user_compiler  # type: ignore[method-assign]
    wrapper = torch._TorchCompileInductorWrapper
    original_init: Callable[..., None] = wrapper.__init__

    def __init__(self: Any, mode: Any, options: Any, *args: Any, **kwargs: Any) -> None:
        original_init(self, mode, options, *args, **kwargs)
        self.minify_asked = (mode, dict(options) if options else None)

    wrapper.__init__ = __init__  # type: ignore[method-assign]

    def end() -> None:
        OutputGraph.call_user_compiler = original  # type: ignore[method-assign]
        wrapper.__init__ = original_init  # type: ignore[method-assign]

    return end


def as_dynamo_takes(compiled: Any) -> Any:
    """Return what Dynamo calls in place of a backend's result: of a graph module whose code is not yet written, as
    `gm.forward` is if the backend calls `gm.recompile()`, the method after its code was written.

    Source: torch._dynamo.output_graph, at the end of compile_and_call_fx_graph.
    """
    module = getattr(compiled, "__self__", None)
    if isinstance(module, _LazyGraphModule) and compiled.__name__ == "_lazy_forward":
        _LazyGraphModule.force_recompile(module)
        return module.forward
    return compiled


@dataclass(frozen=True)
class AskedBackend:
    """The arguments of torch.compile: a backend's callable and name, mode, options and dynamic.

    `function` is None for inductor, which torch.compile knows by its name alone.
    """

    function: Any
    name: str
    mode: str | None = None
    options: dict[str, Any] | None = None
    dynamic: bool | None = None


def asked_backend(compiler_fn: Any) -> AskedBackend:
    """Remove Dynamo's wrappers from a compiler function."""
    while hasattr(compiler_fn, "_torchdynamo_orig_backend"):
        compiler_fn = compiler_fn._torchdynamo_orig_backend
    if isinstance(compiler_fn, torch._TorchCompileInductorWrapper):
        mode, options = getattr(compiler_fn, "minify_asked", (None, compiler_fn.config or None))
        return AskedBackend(None, compiler_fn.compiler_name, mode, options, compiler_fn.dynamic)
    if isinstance(compiler_fn, torch._TorchCompileWrapper):
        mode, options = compiler_fn.kwargs.get("mode"), compiler_fn.kwargs.get("options")
        return AskedBackend(compiler_fn.compiler_fn, compiler_fn.compiler_name, mode, options, compiler_fn.dynamic)
    return AskedBackend(compiler_fn, getattr(compiler_fn, "__name__", type(compiler_fn).__name__))


def compiler_for(backend: Any, mode: str | None, options: dict[str, Any] | None, dynamic: bool | None) -> Any:
    """Return the callable `(graph_module, example_inputs) -> compiled` that torch.compile would hand to Dynamo."""
    if backend == "inductor":
        return _INDUCTOR_WRAPPER(mode, options, dynamic)
    return _BACKEND_WRAPPER(backend, mode, options, dynamic)


def aot_autograd_arguments(backend: Any) -> dict[str, Any] | None:
    """Return the keyword arguments of the call `aot_autograd(...)` that made this backend, or None."""
    module = sys.modules.get("torch._dynamo.backends.common")
    if module is not None and isinstance(backend, module.AotAutograd):
        return dict(backend.kwargs)
    return None
