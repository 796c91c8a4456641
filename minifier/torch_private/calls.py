"""Dynamo's calls of backends, and its wrappers around backends."""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import _TorchCompileInductorWrapper, _TorchCompileWrapper
from torch._dynamo.exc import (
    BackendCompilerFailed,
    RestartAnalysis,
    SkipFrame,
    TensorifyScalarRestartAnalysis,
    Unsupported,
)
from torch.fx._lazy_graph_module import _LazyGraphModule

from minifier.interfaces.declared import (
    EVERYTHING,
    GRAPHS,
    OPTIONS,
    TORCH,
    Arguments,
    InterfaceState,
    ending_all,
    stands_on,
)
from minifier.interfaces.names import LAZY_FORWARD, WRAPPED_BACKEND, WRAPPED_CALLABLE
from minifier.torch_private.inductor import INDUCTOR

# A checkpoint raises it to end a call: it has recomputed enough.
_STOP_RECOMPUTATION = stands_on(
    "torch.utils.checkpoint:_StopRecomputationError",
    loses="the end of a checkpoint's recomputation: it counts as a failure",
)
_CALL_COMPILER = stands_on(
    "torch._dynamo.output_graph:OutputGraph.call_user_compiler",
    loses=GRAPHS,
    parameters=("self", "gm", "example_inputs"),
)
_COMPILER = stands_on("torch._dynamo.output_graph:OutputGraph.compiler_fn", loses=GRAPHS)
_LAZY_CODE = stands_on(
    "torch.fx._lazy_graph_module:_LazyGraphModule.force_recompile",
    loses="compiled functions as Dynamo takes them, where a backend returns a graph module's forward",
)
_INDUCTOR_INIT = stands_on(
    "torch:_TorchCompileInductorWrapper.__init__", loses=OPTIONS, parameters=("self", "mode", "options")
)
_INDUCTOR_CONFIG = stands_on("torch:_TorchCompileInductorWrapper.config", loses=OPTIONS)
_INDUCTOR_DYNAMIC = stands_on("torch:_TorchCompileInductorWrapper.dynamic", loses=OPTIONS)
_FUNCTION = stands_on("torch:_TorchCompileWrapper.compiler_fn", loses=GRAPHS)
_INIT = stands_on("torch:_TorchCompileWrapper.__init__", loses=OPTIONS, parameters=("self", "backend"))
_NAME = stands_on("torch:_TorchCompileWrapper.compiler_name", loses=OPTIONS)
_KEYWORDS = stands_on("torch:_TorchCompileWrapper.kwargs", loses=OPTIONS)
_DYNAMIC = stands_on("torch:_TorchCompileWrapper.dynamic", loses=OPTIONS)
_WRAPPERS = [
    stands_on("torch:_TorchCompileInductorWrapper", loses=EVERYTHING, parameters=("mode", "options", "dynamic")),
    stands_on("torch:_TorchCompileWrapper", loses=EVERYTHING, parameters=("backend", "mode", "options", "dynamic")),
]
_DDP_OPTIMIZER = stands_on(
    "torch._dynamo.backends.distributed:DDPOptimizer", loses="the backend of a module in DistributedDataParallel"
)
_DDP_BACKEND = stands_on(
    "torch._dynamo.backends.distributed:DDPOptimizer.backend_compile_fn", loses=_DDP_OPTIMIZER.loses
)
_COMPILERS = "the compilers of a backend that the script makes with aot_autograd(...)"
_AOT_BACKEND = stands_on("torch._dynamo.backends.common:AotAutograd", loses=_COMPILERS)
_AOT_KEYWORDS = stands_on("torch._dynamo.backends.common:AotAutograd.kwargs", loses=_COMPILERS)
# The attribute in which Dynamo's wrappers keep the backend.
_WRAPPED = WRAPPED_BACKEND if TORCH >= (2, 9) else WRAPPED_CALLABLE

# torch.compile's wrappers around backends, which pass on mode= and options=; untyped in torch.
_INDUCTOR_WRAPPER: Callable[..., Any] = _TorchCompileInductorWrapper
_BACKEND_WRAPPER: Callable[..., Any] = _TorchCompileWrapper

# Raised inside a backend to make Dynamo trace again or skip the frame; not failures.
_PROTOCOL: tuple[type[BaseException], ...] = (
    RestartAnalysis,
    SkipFrame,
    TensorifyScalarRestartAnalysis,
    Unsupported,
    KeyboardInterrupt,
    *filter(None, [_STOP_RECOMPUTATION.find()]),
)


def is_failure(error: BaseException) -> bool:
    """Whether an exception from a backend call is a failure, not part of torch's own protocol."""
    return not isinstance(error, _PROTOCOL)


def backend_error(error: BaseException) -> BaseException:
    """Return the backend's exception without Dynamo's wrapper."""
    return getattr(error, "inner_exception", error) if isinstance(error, BackendCompilerFailed) else error


Call = Callable[[], Callable[..., Any]]
Observe = Callable[[Any, torch.fx.GraphModule, Sequence[Any], Call], Callable[..., Any]]


def observe_backend_calls(observe: Observe) -> Callable[[], None]:
    """Wrap every backend call of this process in `observe(compiler_fn, graph_module, example_inputs, call)`.

    `observe` must call `call()` and return its result, perhaps wrapped. Return a function that ends this. Observers
    must end in reverse order.
    """

    def read_call(call: Arguments) -> tuple[Any, torch.fx.GraphModule, Sequence[Any]]:
        return call["self"].compiler_fn, call["gm"], call["example_inputs"]

    def call_compiler(read: tuple[Any, torch.fx.GraphModule, Sequence[Any]], go_on: Call) -> Any:
        return observe(*read, lambda: as_dynamo_takes(go_on()))

    def init(call: Arguments, go_on: Call) -> None:
        mode, options = call["mode"], call["options"]
        go_on()  # which refuses bad options
        asked = mode, options.copy() if isinstance(options, dict) and options else None
        _INDUCTOR_INIT.read(lambda: setattr(call["self"], "minify_asked", asked))

    return ending_all(_CALL_COMPILER.replace(read_call, call_compiler), _INDUCTOR_INIT.replace(dict, init))


def note_at_compile(read: Callable[[Any], Any]) -> Callable[[], None]:
    """Call `read(backend)` at each call of torch.compile with another backend than inductor.

    Return a function that ends this. `read` must not raise; what it returns is the backend's `AskedBackend.noted`.
    """

    def init(call: Arguments, go_on: Call) -> None:
        go_on()
        call["self"].minify_noted = read(call["backend"])

    return _INIT.replace(dict, init)


def as_dynamo_takes(compiled: Any) -> Any:
    """Return what Dynamo calls in place of a backend's result: of a graph module whose code is not yet written, as
    `gm.forward` is if the backend calls `gm.recompile()`, the method after its code was written.

    Source: torch._dynamo.output_graph, at the end of compile_and_call_fx_graph.
    """
    module = getattr(compiled, "__self__", None)
    if not isinstance(module, _LazyGraphModule) or compiled.__name__ != LAZY_FORWARD:
        return compiled
    if (write_code := _LAZY_CODE.find()) is None:
        return compiled
    write_code(module)
    return module.forward


@dataclass(frozen=True)
class AskedBackend:
    """The arguments of torch.compile: a backend's callable and name, mode, options and dynamic.

    `function` is None for inductor, which torch.compile knows by its name alone. `note_at_compile` has read `noted`.
    """

    function: Any
    name: str
    mode: str | None = None
    options: dict[str, Any] | None = None
    dynamic: bool | None = None
    noted: Any = None


def asked_backend(compiler_fn: Any) -> AskedBackend:
    """Remove Dynamo's wrappers from a compiler function."""
    while hasattr(compiler_fn, _WRAPPED):
        compiler_fn = getattr(compiler_fn, _WRAPPED)
    if (split := _of_ddp(compiler_fn)) is not None:
        return asked_backend(split)
    if isinstance(compiler_fn, _TorchCompileInductorWrapper):
        mode, options = getattr(compiler_fn, "minify_asked", None) or (None, _INDUCTOR_CONFIG.of(compiler_fn) or None)
        return AskedBackend(None, INDUCTOR, mode, options, _INDUCTOR_DYNAMIC.of(compiler_fn))
    if isinstance(compiler_fn, _TorchCompileWrapper):
        function, keywords = _FUNCTION.of(compiler_fn), _KEYWORDS.of(compiler_fn) or {}
        name = _NAME.of(compiler_fn)
        name = _name(function) if name in (None, "", getattr(function, "__name__", None)) else name
        mode, options, noted = keywords.get("mode"), keywords.get("options"), getattr(compiler_fn, "minify_noted", None)
        return AskedBackend(function, name, mode, options, _DYNAMIC.of(compiler_fn), noted)
    return AskedBackend(compiler_fn, _name(compiler_fn))


def _of_ddp(compiler_fn: Any) -> Any:
    """Return the backend that gets the parts of a graph that Dynamo splits for DistributedDataParallel; or None."""
    if _DDP_OPTIMIZER.state() is InterfaceState.NOT_LOADED or (kind := _DDP_OPTIMIZER.find()) is None:
        return None
    optimizer = getattr(compiler_fn, "__self__", None)
    return _DDP_BACKEND.of(optimizer) if isinstance(optimizer, kind) else None


def _name(backend: Any) -> str:
    """Return a function's name, a method's with its class, or that of an object's class."""
    if isinstance(backend, types.MethodType):
        owner = backend.__self__ if isinstance(backend.__self__, type) else type(backend.__self__)
        return f"{owner.__name__}.{backend.__name__}"
    return str(getattr(backend, "__name__", type(backend).__name__))


def compiler_for(backend: Any, mode: str | None, options: dict[str, Any] | None, dynamic: bool | None) -> Any:
    """Return the callable `(graph_module, example_inputs) -> compiled` that torch.compile would hand to Dynamo."""
    if backend == "inductor":
        return _INDUCTOR_WRAPPER(mode, options, dynamic)
    return _BACKEND_WRAPPER(backend, mode, options, dynamic)


def aot_autograd_arguments(backend: Any) -> dict[str, Any] | None:
    """Return the keyword arguments of the call `aot_autograd(...)` that made this backend, or None."""
    if _AOT_BACKEND.state() is InterfaceState.NOT_LOADED or (kind := _AOT_BACKEND.find()) is None:
        return None
    return dict(_AOT_KEYWORDS.of(backend) or {}) if isinstance(backend, kind) else None
