"""Dynamo: its calls of backends and wrappers around them, its failures while tracing, its caches."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import sys
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any

import torch
from torch import _TorchCompileInductorWrapper, _TorchCompileWrapper
from torch._dynamo.eval_frame import OptimizeContext
from torch._dynamo.exc import (
    BackendCompilerFailed,
    RestartAnalysis,
    SkipFrame,
    TensorifyScalarRestartAnalysis,
    Unsupported,
)
from torch._dynamo.output_graph import FakeRootModule, OutputGraph
from torch._dynamo.utils import counters
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.fx.node import map_arg

from minifier.data.failure.observed import chain
from minifier.data.torch_names import LAZY_FORWARD, WRAPPED_BACKEND, WRAPPED_CALLABLE, WRAPPER_ID
from minifier.torch_side.interfaces import TORCH, Arguments, ending_all
from minifier.torch_side.torch_private import declared

INDUCTOR = "inductor"
# The attribute in which Dynamo's wrappers keep the backend.
_WRAPPED = WRAPPED_BACKEND if TORCH >= (2, 9) else WRAPPED_CALLABLE

# Raised inside a backend to make Dynamo trace again or skip the frame; not failures.
_PROTOCOL: tuple[type[BaseException], ...] = (
    RestartAnalysis,
    SkipFrame,
    TensorifyScalarRestartAnalysis,
    Unsupported,
    KeyboardInterrupt,
    *filter(None, [declared.STOP_RECOMPUTATION.find()]),
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
    """Patch Dynamo: where it asks a backend to compile a graph, `observe(compiler_fn, graph_module, example_inputs,
    call)` is called.

    `observe` must call `call()`, which runs the backend, and return its result, perhaps wrapped. Return a function that
    undoes this. Observers are removed in reverse order.
    """

    def read_call(call: Arguments) -> tuple[Any, torch.fx.GraphModule, Sequence[Any]]:
        return call["self"].compiler_fn, call["gm"], call["example_inputs"]

    def call_compiler(read: tuple[Any, torch.fx.GraphModule, Sequence[Any]], go_on: Call) -> Any:
        return observe(*read, lambda: as_dynamo_takes(go_on()))

    def init(call: Arguments, go_on: Call) -> None:
        mode, options = call["mode"], call["options"]
        go_on()  # which refuses bad options
        asked = mode, options.copy() if isinstance(options, dict) and options else None
        declared.WRAPPER_INIT.read(lambda: setattr(call["self"], "minify_asked", asked))

    return ending_all(
        declared.CALL_COMPILER.replace(read_call, call_compiler), declared.WRAPPER_INIT.replace(dict, init)
    )


def as_dynamo_takes(compiled: Any) -> Any:
    """Return what Dynamo calls for a backend's result.

    A backend may return `gm.forward` of a lazy graph module, whose code is not written yet after `gm.recompile()`.
    Dynamo writes the code, and calls the new method.

    Source: torch._dynamo.output_graph, at the end of compile_and_call_fx_graph.
    """
    module = getattr(compiled, "__self__", None)
    if not isinstance(module, _LazyGraphModule) or compiled.__name__ != LAZY_FORWARD:
        return compiled
    if (write_code := declared.WRITE_LAZY_CODE.find()) is None:
        return compiled
    write_code(module)
    return module.forward


def outputs_dynamo_takes(returned: Any, results: Any) -> tuple[Any, ...]:
    """Return the outputs that the caller under torch.compile gets, where a compiled graph has `returned` something.

    Dynamo's bytecode takes them by their positions: of a tensor in the place of a tuple the first rows. It raises an
    IndexError, say, if there are fewer. `results` is the tuple of the graph's output node.
    """
    return tuple(returned[i] for i in range(len(results)))


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
    while hasattr(compiler_fn, _WRAPPED):
        compiler_fn = getattr(compiler_fn, _WRAPPED)
    # Dynamo splits a graph for DistributedDataParallel; the parts go to the backend.
    optimizer, kind = getattr(compiler_fn, "__self__", None), declared.DDP_OPTIMIZER.find(load=False)
    if kind is not None and isinstance(optimizer, kind) and (backend := declared.DDP_BACKEND.of(optimizer)) is not None:
        return asked_backend(backend)
    if isinstance(compiler_fn, _TorchCompileInductorWrapper):
        asked = getattr(compiler_fn, "minify_asked", None)
        mode, options = asked or (None, declared.WRAPPER_CONFIG.of(compiler_fn) or None)
        return AskedBackend(None, INDUCTOR, mode, options, declared.WRAPPER_DYNAMIC.of(compiler_fn))
    if isinstance(compiler_fn, _TorchCompileWrapper):
        function, keywords = declared.FUNCTION.of(compiler_fn), declared.KEYWORDS.of(compiler_fn) or {}
        name = declared.NAME.of(compiler_fn)
        name = _name(function) if name in (None, "", getattr(function, "__name__", None)) else name
        return AskedBackend(
            function, name, keywords.get("mode"), keywords.get("options"), declared.DYNAMIC.of(compiler_fn)
        )
    return AskedBackend(compiler_fn, _name(compiler_fn))


def _name(backend: Any) -> str:
    """Return a function's name, a method's with its class, or that of an object's class."""
    if isinstance(backend, types.MethodType):
        owner = backend.__self__ if isinstance(backend.__self__, type) else type(backend.__self__)
        return f"{owner.__name__}.{backend.__name__}"
    return str(getattr(backend, "__name__", type(backend).__name__))


def compiler_for(backend: Any, mode: str | None, options: dict[str, Any] | None, dynamic: bool | None) -> Any:
    """Return the callable `(graph_module, example_inputs) -> compiled` that torch.compile would hand to Dynamo."""
    if backend == INDUCTOR:
        return _TorchCompileInductorWrapper(mode, options, dynamic)  # type: ignore[no-untyped-call]
    return _TorchCompileWrapper(backend, mode, options, dynamic)  # type: ignore[no-untyped-call]


def aot_autograd_arguments(backend: Any) -> dict[str, Any] | None:
    """Return the keyword arguments of the call `aot_autograd(...)` that made this backend, or None.

    The first call of the backend adds its forward compiler as the compiler for inference, and wraps the compiler of the
    backward pass, which is the forward compiler too unless it was given.
    """
    kind = declared.AOT_BACKEND_CLASS.find(load=False)
    if kind is None or not isinstance(backend, kind):
        return None
    arguments = dict(declared.AOT_KEYWORDS.of(backend) or {})
    backward = arguments.get("bw_compiler")
    if isinstance(backward, types.FunctionType) and backward.__module__ == kind.__module__ and backward.__closure__:
        arguments["bw_compiler"] = backward.__closure__[0].cell_contents
    forward = arguments.get("fw_compiler")
    return {name: value for name, value in arguments.items() if name == "fw_compiler" or value is not forward}


def observe_compiled_calls(around: Callable[[Callable[[], Any]], Any]) -> None:
    """Call `around(call)` at each call of a function that torch.compile makes from now on; it returns `call()`.

    A compiled module calls such a function. Dynamo inlines the original in code that it traces.
    """

    def compile_function(context: Any, go_on: Callable[[], Any]) -> Any:
        compiled = go_on()
        if not isinstance(context, OptimizeContext) or not isinstance(compiled, types.FunctionType):
            return compiled

        @functools.wraps(compiled)
        def call(*args: Any, **kwargs: Any) -> Any:
            return around(lambda: compiled(*args, **kwargs))

        if hasattr(call, WRAPPER_ID):
            setattr(call, WRAPPER_ID, id(call))
        return call

    declared.COMPILED_FUNCTION.replace(lambda call: call["self"], compile_function)


class _CompiledCall:
    """The attribute in which a module keeps what `Module.compile` made of it, made at the first call and kept for good.

    During a call, the modules that it reaches have none: they are part of its graphs, or of what a backend made of
    these.
    """

    def __init__(self, compile_module: Callable[[torch.nn.Module], Any]) -> None:
        self._compile_module = compile_module
        self._compiled: dict[torch.nn.Module, Any] = {}
        self._calls = threading.local()

    def __get__(self, module: torch.nn.Module | None, owner: type | None = None) -> Any:
        if module is None or torch.compiler.is_compiling() or isinstance(module, torch.jit.ScriptModule):
            return None
        if getattr(self._calls, "began", False):
            return None
        if module not in self._compiled:
            self._compiled[module] = self._compile_module(module)
        return functools.partial(self._call, self._compiled[module])

    def _call(self, compiled: Any, *args: Any, **keywords: Any) -> Any:
        self._calls.began = True
        try:
            return compiled(*args, **keywords)
        finally:
            self._calls.began = False


def compile_module_calls(compile_module: Callable[[torch.nn.Module], Any]) -> Callable[[], None]:
    """Compile each module that is called from outside of modules; return a function that ends this.

    A module on which `compile` was called stays as it is.
    """
    before = declared.COMPILED_CALL.find()
    declared.COMPILED_CALL.assign(_CompiledCall(compile_module))
    return lambda: declared.COMPILED_CALL.assign(before)


_FAILING_OP = "_minify_failing_op"  # of an exception: the op that raised it


@dataclass(frozen=True, slots=True)
class TracedGraph:
    """Dynamo's trace of a frame: the graph up to its last op, and the graph's inputs."""

    module: torch.fx.GraphModule
    inputs: list[Any]


@dataclass(frozen=True, slots=True)
class _Op:
    """A node, and its arguments before torch erased the node: an erased node has none."""

    node: torch.fx.Node
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


FindGraph = Callable[[], "TracedGraph | None"]


def observe_tracing(observe: Callable[[Any, FindGraph], None]) -> None:
    """Call `observe(compiler_fn, find_graph)` when Dynamo raises an exception while tracing a frame of this process.

    `find_graph()` returns the graph whose only output is the op at which Dynamo failed; None if no op failed. The
    exception propagates unchanged. `observe` must not raise.
    """

    def run_node(op: _Op, go_on: Callable[[], Any]) -> Any:
        try:
            return go_on()
        except BaseException as error:
            vars(error).setdefault(_FAILING_OP, op)
            raise

    declared.TRACE_FRAME.replace(lambda call: _before_cleanup(call["self"].output, observe), lambda _, go_on: go_on())
    declared.RUN_NODE.replace(lambda call: _Op(call["node"], call["node"].args, call["node"].kwargs), run_node)


def _before_cleanup(output: OutputGraph, observe: Callable[[Any, FindGraph], None]) -> None:
    """Call `observe` after a failed trace, before Dynamo's cleanup removes the graph's inputs."""
    handled = sys.exc_info()[1]  # the script may compile within `except`
    cleanup, compiler = output.cleanup, output.compiler_fn

    def observed_cleanup(*args: Any, **kwargs: Any) -> Any:
        vars(output).pop("cleanup", None)
        error = sys.exc_info()[1]
        if error is not None and error is not handled and not isinstance(error, (RestartAnalysis, SkipFrame)):
            observe(compiler, lambda: _up_to_failing_op(output, error))
        return cleanup(*args, **kwargs)

    vars(output)["cleanup"] = observed_cleanup


def _up_to_failing_op(output: OutputGraph, error: BaseException) -> TracedGraph | None:
    """Return a copy of the traced graph, with the op at which Dynamo failed as its last node; None if no op failed."""
    graph = torch.fx.Graph()
    copies: dict[torch.fx.Node, torch.fx.Node] = {}
    graph.graph_copy(output.graph, copies)
    nodes = list(output.graph.nodes)
    last = _erased_op(output, error, graph, copies)
    if last is None and nodes and nodes[-1].op.startswith("call_") and "example_value" not in nodes[-1].meta:
        last = copies[nodes[-1]]
    if last is None:
        return None
    graph.output((last,))
    return TracedGraph(torch.fx.GraphModule(FakeRootModule(output.nn_modules), graph), output.example_inputs())


def _erased_op(
    output: OutputGraph, error: BaseException, graph: torch.fx.Graph, copies: dict[torch.fx.Node, torch.fx.Node]
) -> torch.fx.Node | None:
    """Append a copy of the op that raised `error`, and return it; None if the op was not erased from Dynamo's graph.

    torch 2.14 erases it: the script may catch the exception.
    """
    op = next((found for link in chain(error) if (found := vars(link).get(_FAILING_OP))), None)
    if op is None or op.node.graph is not output.graph or op.node in copies:
        return None
    copy = graph.node_copy(op.node)
    copy.args, copy.kwargs = map_arg((op.args, op.kwargs), copies.__getitem__)
    return copy


@contextlib.contextmanager
def dynamo_caches_restored(is_ours: Callable[[Any], bool]) -> Iterator[None]:
    """Afterwards, remove the compiled code whose compiler function `is_ours` accepts, and forget the seen sizes.

    Code that was compiled by other backends stays, so that nothing of the user's is compiled again. Sizes that Dynamo
    has seen decide which sizes it makes dynamic later.
    """
    sizes = copy.deepcopy(declared.SEEN_SIZES.find())
    try:
        yield
    finally:
        declared.SEEN_SIZES.assign(sizes)
        codes = declared.CODES.find()
        for reference in [] if codes is None else declared.CODES.read(lambda: list(codes.seen), []):
            if (code := reference()) is not None:
                _remove_from(code, is_ours)


def warm_up_dynamo() -> None:
    """Trace a function here, so that Dynamo has looked up its tables and backends once for all forks of this process.

    For its log Dynamo times the guards of each function, after 30 ms in which it empties the caches of the machine: not
    in these forks. Together this is more than half of what it takes to trace a function of a few ops.
    """
    declared.GUARDS_TIMED.assign(lambda *_: 0.0)
    torch.compile(lambda tensor: torch.neg(tensor), backend="eager")(torch.zeros(1))  # noqa: PLW0108 - it is traced
    torch.compiler.reset()
    counters.clear()


def forget_graph_breaks() -> None:
    """Clear Dynamo's counters, which name the graph breaks of a process."""
    counters.clear()


def first_graph_break() -> str:
    """Return why Dynamo broke a graph, or gave a function up, since its counters were cleared; "" if it did not."""
    reasons: list[str] = [*counters["graph_break"], *counters["unimplemented"]]
    return reasons[0].strip().splitlines()[0] if reasons else ""


def isolated_compile(function: Callable[..., Any], backend: Any, dynamic: bool | None = None) -> Callable[..., Any]:
    """Return the function under torch.compile, with limits of recompilation of its own where this torch can do that."""
    can_isolate = "isolate_recompiles" in inspect.signature(torch.compile).parameters
    keywords: dict[str, Any] = {"isolate_recompiles": True} if can_isolate else {}
    compiled: Callable[..., Any] = torch.compile(function, backend=backend, dynamic=dynamic, **keywords)
    return compiled


def compiled_entries(code: CodeType) -> list[Any]:
    """Return the entries that Dynamo's cache has for this code, without removed ones."""
    entries = declared.ENTRIES.find()
    found = entries(code) if entries is not None else ()
    return [entry for entry in found if declared.COMPILER_OF_ENTRY.of(entry) is not None]


def _remove_from(code: CodeType, is_ours: Callable[[Any], bool]) -> None:
    """Remove our entries of the cache. Without other entries, forget the code altogether.

    Next to other entries, an entry is removed as Dynamo does it when an object dies that the entry's guards check: it
    stays, without its code.
    """
    entries = compiled_entries(code)
    ours = [entry for entry in entries if is_ours(declared.COMPILER_OF_ENTRY.of(entry))]
    reset, deleted = declared.RESET.find(), declared.DELETED.find()
    if ours and len(ours) == len(entries) and reset is not None:
        reset(code)
    elif ours and deleted is not None:
        reason = deleted("compiled by minifier for a look alone")
        declared.REMOVAL.read(lambda: [each.guard_manager.extra_state.invalidate(each, reason) for each in ours])
