"""AOTAutograd: the compilers that a backend gave it, and its calls of them and of what they made."""

from __future__ import annotations

import functools
import importlib
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

# Imported when first needed, which is a fifth of a second; untyped, as their functions are replaced.
_GRAPH_COMPILE = "torch._functorch._aot_autograd.graph_compile"
_RUNTIME_WRAPPERS = "torch._functorch._aot_autograd.runtime_wrappers"
_CACHE = "torch._functorch._aot_autograd.autograd_cache"

FORWARD, BACKWARD, INFERENCE = "aot-forward", "aot-backward", "aot-inference"

Call = Callable[[], Any]
OnCompile = Callable[[Any, str, torch.fx.GraphModule, Sequence[Any], Call], Any]
OnRun = Callable[[Any, list[Any], Call], Any]


class _ByIdentity:
    """Values by the identity of objects, as long as these live; what cannot be referred to weakly lives on."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[Callable[[], Any], Any]] = {}

    def add(self, key: Any, value: Any) -> None:
        number = id(key)
        try:
            held: Callable[[], Any] = weakref.ref(key, lambda _: self._held.pop(number, None))
        except TypeError:
            held = lambda: key  # noqa: E731 - the type of a weak reference
        self._held[number] = held, value

    def get(self, key: Any) -> Any:
        held, value = self._held.get(id(key), (None, None))
        return value if held is not None and held() is key else None


def observe_aot_compilers(
    begin: Callable[[], Any], on_compile: OnCompile, on_run: OnRun | None = None
) -> Callable[[], None]:
    """From now on `on_compile(token, part, graph_module, example_inputs, call)` stands around every call of a compiler
    (`part` is FORWARD or BACKWARD, for a training graph, or INFERENCE), and `on_run(token, args, call)` around
    every call of a compiled backward whose token is not None. Each must call `call()` and give back what that gives.
    `token` is what `begin()` gave as the graph came to AOTAutograd: a backward graph is compiled only when it is
    first needed. Nothing that was compiled is kept alive. Gives a function that ends this; the last that was begun has
    to be ended first.

    With `on_run`, what AOTAutograd has in its cache on disk is passed over: of a backward that comes from there no
    graph is known. Compilers have caches of their own, which go on to save the time."""
    graph_compile: Any = importlib.import_module(_GRAPH_COMPILE)
    runtime_wrappers: Any = importlib.import_module(_RUNTIME_WRAPPERS)
    autograd, inference = graph_compile.aot_stage2_autograd, graph_compile.aot_stage2_inference
    backwards = _ByIdentity()

    def observed(token: Any, part: str, compiler: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(compiler, updated=())
        def compile_part(gm: torch.fx.GraphModule, inputs: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
            compiled = on_compile(token, part, gm, inputs, lambda: compiler(gm, inputs, *args, **kwargs))
            if part == BACKWARD and token is not None:
                backwards.add(compiled, token)
            return compiled

        return compile_part

    def aot_stage2_autograd(state: Any, capture: Any, partition: Any, fw: Any, bw: Any) -> Any:
        token = begin()
        return autograd(state, capture, partition, observed(token, FORWARD, fw), observed(token, BACKWARD, bw))

    def aot_stage2_inference(state: Any, capture: Any, partition: Any, compiler: Any) -> Any:
        return inference(state, capture, partition, observed(begin(), INFERENCE, compiler))

    graph_compile.aot_stage2_autograd = aot_stage2_autograd
    graph_compile.aot_stage2_inference = aot_stage2_inference

    def end() -> None:
        graph_compile.aot_stage2_autograd, graph_compile.aot_stage2_inference = autograd, inference

    if on_run is None:
        return end
    call_runtime = runtime_wrappers.call_func_at_runtime_with_args

    def call_func_at_runtime_with_args(f: Any, args: Any, *rest: Any, **kwargs: Any) -> Any:
        token = backwards.get(f)
        if token is None:
            return call_runtime(f, args, *rest, **kwargs)
        return on_run(token, args, lambda: call_runtime(f, args, *rest, **kwargs))

    runtime_wrappers.call_func_at_runtime_with_args = call_func_at_runtime_with_args
    cache: Any = importlib.import_module(_CACHE).AOTAutogradCache
    lookup = vars(cache)["_lookup"]
    cache._lookup = staticmethod(lambda *args: None)

    def end_all() -> None:
        end()
        runtime_wrappers.call_func_at_runtime_with_args = call_runtime
        cache._lookup = lookup

    return end_all


def note_backward_passes(note: Callable[[Sequence[Any]], None]) -> None:
    """From now on `note(roots)` is called before each backward pass of this process; the roots are the tensors, or
    gradient edges, that it begins at."""
    import torch.autograd.graph as module

    engine: Callable[..., Any] = module._engine_run_backward

    @functools.wraps(engine)
    def _engine_run_backward(*args: Any, **kwargs: Any) -> Any:
        note(args[0] if args else ())
        return engine(*args, **kwargs)

    for place in (module, torch.autograd):
        place._engine_run_backward = _engine_run_backward  # type: ignore[attr-defined]


def backward_arguments() -> list[Any] | None:
    """The real saved tensors and tangents of the backward pass that this code is called from; None outside one.

    A backward graph is compiled when it is first needed, with fake tensors; the real ones are a frame further up.
    """
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name == "_backward_impl":
            found = frame.f_locals.get("all_args")
            return list(found) if isinstance(found, list) else None
        frame = frame.f_back  # type: ignore[assignment]
    return None


class _LeaveBackend(BaseException):
    """Leaves the backend, and AOTAutograd in it, with what was wanted. Not an Exception: nobody may catch it."""


class NoCompiler(Exception):
    """The backend did not hand any compiler to AOTAutograd."""


def with_aot_compiler(call_backend: Call, part: str, work: Callable[[Callable[..., Any]], Any]) -> Any:
    """`work(compiler)`, done where the backend has just handed its compilers to AOTAutograd: whatever it set up for
    them (options, configuration) is in place. `call_backend` calls it on some small graph; `part` is BACKWARD, or
    FORWARD: then it is the compiler for training or for inference, whichever that graph came to.

    Raises NoCompiler if the backend does not use AOTAutograd on that graph.
    """

    def aot_stage2_autograd(state: Any, capture: Any, partition: Any, fw: Any, bw: Any) -> Any:
        with unset_fake_temporarily():
            raise _LeaveBackend(work(bw if part == BACKWARD else fw))

    def aot_stage2_inference(state: Any, capture: Any, partition: Any, compiler: Any) -> Any:
        if part == BACKWARD:
            raise NoCompiler("the backend compiles for inference where a training graph was expected")
        with unset_fake_temporarily():
            raise _LeaveBackend(work(compiler))

    graph_compile: Any = importlib.import_module(_GRAPH_COMPILE)
    originals = graph_compile.aot_stage2_autograd, graph_compile.aot_stage2_inference
    graph_compile.aot_stage2_autograd = aot_stage2_autograd
    graph_compile.aot_stage2_inference = aot_stage2_inference
    try:
        call_backend()
    except _LeaveBackend as done:
        return done.args[0]
    finally:
        graph_compile.aot_stage2_autograd, graph_compile.aot_stage2_inference = originals
    raise NoCompiler("the backend did not hand any compiler to AOTAutograd")


def copied_graph(gm: torch.fx.GraphModule) -> torch.fx.Graph:
    """The graph as it is now: a compiler may change the one that it is given."""
    copied = torch.fx.Graph()
    copied.output(copied.graph_copy(gm.graph, {}))
    return copied


@contextmanager
def as_aot_calls_backward() -> Iterator[None]:
    """What is around the compilation of a backward graph: neither grad mode nor autocast."""
    with torch.no_grad(), torch._C._DisableAutocast():
        yield


def call_compiled(compiled: Any, args: Sequence[Any]) -> Any:
    """Calls what a forward or backward compiler gave, as AOTAutograd does: with a list, if it takes one."""
    with as_aot_calls_backward():
        return compiled(list(args)) if getattr(compiled, "_boxed_call", False) else compiled(*args)
