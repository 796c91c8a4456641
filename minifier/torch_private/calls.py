"""The one place through which Dynamo calls every backend, and what it wraps backends in."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._dynamo import exc as dynamo_exc
from torch._dynamo.output_graph import OutputGraph
from torch.utils import checkpoint

# Dynamo's way of saying "trace again" or "leave this frame alone" from inside a backend; not failures.
_PROTOCOL = (
    dynamo_exc.RestartAnalysis,
    dynamo_exc.SkipFrame,
    dynamo_exc.TensorifyScalarRestartAnalysis,
    dynamo_exc.Unsupported,
    checkpoint._StopRecomputationError,  # a checkpoint's: what it has recomputed is enough, the call may end here
    KeyboardInterrupt,
)


def is_failure(error: BaseException) -> bool:
    """Whether an exception out of a backend call is a failure, not part of torch's own protocol."""
    return not isinstance(error, _PROTOCOL)


def backend_error(error: BaseException) -> BaseException:
    """What the backend raised, Dynamo's wrapper taken off."""
    return error.inner_exception if isinstance(error, dynamo_exc.BackendCompilerFailed) else error


# What torch.compile wraps a backend in, to hand it mode= and options=; untyped in torch.
_INDUCTOR: Callable[..., Any] = torch._TorchCompileInductorWrapper
_OTHERS: Callable[..., Any] = torch._TorchCompileWrapper

Call = Callable[[], Callable[..., Any]]
Observe = Callable[[Any, torch.fx.GraphModule, Sequence[Any], Call], Callable[..., Any]]


def observe_backend_calls(observe: Observe) -> Callable[[], None]:
    """From now on `observe(compiler_fn, graph_module, example_inputs, call)` stands around every backend
    call of this process; it must call `call()` and give back what that gives, or a wrapper of it. Gives a function that
    ends this; the last that was begun has to be ended first."""
    original = OutputGraph.call_user_compiler

    def call_user_compiler(self: Any, gm: torch.fx.GraphModule, example_inputs: Any) -> Any:
        return observe(self.compiler_fn, gm, example_inputs, lambda: original(self, gm, example_inputs))

    OutputGraph.call_user_compiler = call_user_compiler  # type: ignore[method-assign]
    wrapper = torch._TorchCompileInductorWrapper
    make: Callable[..., None] = wrapper.__init__

    def __init__(self: Any, mode: Any, options: Any, *args: Any, **kwargs: Any) -> None:
        make(self, mode, options, *args, **kwargs)
        self.minify_asked = (mode, dict(options) if options else None)

    wrapper.__init__ = __init__  # type: ignore[method-assign]

    def end() -> None:
        OutputGraph.call_user_compiler = original  # type: ignore[method-assign]
        wrapper.__init__ = make  # type: ignore[method-assign]

    return end


@dataclass(frozen=True)
class AskedBackend:
    """What torch.compile was asked for: the callable, and the mode, options and dynamic given with it.

    Inductor is known to torch.compile by its name alone: `function` is None then."""

    function: Any
    name: str
    mode: str | None = None
    options: dict[str, Any] | None = None
    dynamic: bool | None = None


def asked_backend(compiler_fn: Any) -> AskedBackend:
    """Takes Dynamo's wrappers off a compiler function."""
    while hasattr(compiler_fn, "_torchdynamo_orig_backend"):
        compiler_fn = compiler_fn._torchdynamo_orig_backend
    if isinstance(compiler_fn, torch._TorchCompileInductorWrapper):
        mode, options = getattr(compiler_fn, "minify_asked", (None, compiler_fn.config or None))
        return AskedBackend(None, compiler_fn.compiler_name, mode, options, compiler_fn.dynamic)
    if isinstance(compiler_fn, torch._TorchCompileWrapper):
        given = compiler_fn.kwargs
        return AskedBackend(
            compiler_fn.compiler_fn,
            compiler_fn.compiler_name,
            given.get("mode"),
            given.get("options"),
            compiler_fn.dynamic,
        )
    return AskedBackend(compiler_fn, getattr(compiler_fn, "__name__", type(compiler_fn).__name__))


def compiler_for(backend: Any, mode: str | None, options: dict[str, Any] | None, dynamic: bool | None) -> Any:
    """The callable `(graph_module, example_inputs) -> compiled` that torch.compile would hand to Dynamo."""
    if backend == "inductor":
        return _INDUCTOR(mode, options, dynamic)
    return _OTHERS(backend, mode, options, dynamic)


def aot_autograd_arguments(backend: Any) -> dict[str, Any] | None:
    """The keyword arguments that `aot_autograd(...)` was called with, if this is what it gave."""
    module = sys.modules.get("torch._dynamo.backends.common")
    if module is not None and isinstance(backend, module.AotAutograd):
        return dict(backend.kwargs)
    return None
