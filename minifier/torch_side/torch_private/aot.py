"""AOTAutograd: its calls of a backend's compilers and of compiled graphs."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, MutableMapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch.utils.weak import WeakIdKeyDictionary

from minifier.torch_side.interfaces import Arguments, Interface, ending_all
from minifier.torch_side.torch_private import declared

Compiler = Callable[..., Any]
# Called with the compilers of one graph, and a function that compiles it with those that it is given.
Training = Callable[[Compiler, Compiler, Callable[[Compiler, Compiler], Any]], Any]
Inference = Callable[[Compiler, Callable[[Compiler], Any]], Any]

FORWARD, BACKWARD, INFERENCE = "aot-forward", "aot-backward", "aot-inference"
PARTITION = "aot-partition"

Call = Callable[[], Any]
OnCompile = Callable[[Any, str, torch.fx.GraphModule, Sequence[Any], "functools.partial[Any]"], Any]
OnRun = Callable[[Any, list[Any], Call], Any]


def observe_aot_compilers(
    begin: Callable[[], Any], on_compile: OnCompile, on_run: OnRun | None = None
) -> Callable[[], None]:
    """Wrap AOTAutograd's calls of compilers and of compiled backward graphs.

    `on_compile(token, part, graph_module, example_inputs, call)` wraps each call of a compiler, `call.func`. `part` is
    FORWARD or BACKWARD for a training graph, or INFERENCE. `on_run(token, args, call)` wraps each call of a compiled
    backward whose token is not None, and that can be weakly referenced. Both return the result of `call()`, or what
    stands for it. `token` is the result of `begin()`, which is called when AOTAutograd has traced the graph. The
    backward graph may be compiled much later, on demand.

    Compiled code is not kept alive. With `on_run`, AOTAutograd's cache on disk is only read for graphs compiled since.
    The graph of a backward from another process's cache is unknown. The compilers' own caches still save time.

    Return a function that undoes this. Observers are removed in reverse order.
    """
    backwards: MutableMapping[Any, Any] = WeakIdKeyDictionary()

    def observed(token: Any, part: str, compiler: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(compiler, updated=())
        def compile_part(gm: torch.fx.GraphModule, inputs: Sequence[Any], *args: Any, **kwargs: Any) -> Any:
            compiled = on_compile(token, part, gm, inputs, functools.partial(compiler, gm, inputs, *args, **kwargs))
            if part == BACKWARD and token is not None:
                with contextlib.suppress(TypeError):  # of an object without weak references: its calls are not wrapped
                    backwards[compiled] = token
            return compiled

        return compile_part

    def training(forward: Any, backward: Any, go_on: Callable[..., Any]) -> Any:
        token = begin()
        return go_on(observed(token, FORWARD, forward), observed(token, BACKWARD, backward))

    end = replace_stages(training, lambda compiler, go_on: go_on(observed(begin(), INFERENCE, compiler)))
    if on_run is None:
        return end

    def read_call(call: Arguments) -> tuple[Any, Any]:
        with contextlib.suppress(TypeError):
            return backwards.get(call["f"]), call["args"]
        return None, call["args"]

    def call_compiled_part(read: tuple[Any, Any], go_on: Call) -> Any:
        token, args = read
        return go_on() if token is None else on_run(token, args, go_on)

    compiled_here: set[Any] = set()  # a graph that is not found is compiled

    def look_up(key: Any, go_on: Call) -> Any:
        if key in compiled_here:
            return go_on()
        compiled_here.add(key)
        return None

    found_again = declared.CACHE_LOOKUP.replace(lambda call: call["key"], look_up)
    return ending_all(end, declared.CALL_COMPILED.replace(read_call, call_compiled_part), found_again)


def choose_partitions(is_left_out: Callable[[str, str], bool]) -> None:
    """Partition joint graphs by torch's default where `is_left_out(PARTITION, name)`, in this process from now on.

    That is asked of each joint graph whose backend has another partition function; `name` as of a compiler.
    """
    from functorch.compile import default_partition  # type: ignore[import-untyped]

    def partition(given: Compiler, go_on: Callable[[Compiler], Any]) -> Any:
        is_other = given is not default_partition
        return go_on(default_partition if is_other and is_left_out(PARTITION, name_of_compiler(given)) else given)

    _replace(declared.COMPILE_TRAINING, ("partition_fn",), partition)


def boxed_graph(gm: torch.fx.GraphModule) -> Compiler:
    """Return what a compiler may return to AOTAutograd: the graph runs as it is."""
    from functorch.compile import make_boxed_func

    compiled: Compiler = make_boxed_func(gm.forward)
    return compiled


def name_of_compiler(compiler: Any) -> str:
    """Return the name of the user's function that AOTAutograd calls; "" if it is one of torch's.

    `aot_autograd` hands on a function of its own, around the one for backward graphs.
    """
    while compiler is not None:
        compiler = getattr(compiler, "func", None) or inspect.unwrap(compiler)  # a partial's function
        if not str(getattr(compiler, "__module__", "")).startswith("torch."):
            return str(getattr(compiler, "__qualname__", type(compiler).__qualname__)).rpartition(".")[2]
        cells = getattr(compiler, "__closure__", None) or ()
        inner = [cell.cell_contents for cell in cells if callable(cell.cell_contents)]
        compiler = inner[0] if len(inner) == 1 else None
    return ""


def note_backward_passes(note: Callable[[Sequence[Any]], None]) -> None:
    """Call `note(roots)` before each backward pass of this process, from now on.

    The roots are the tensors or gradient edges at which the pass begins.
    """

    def run(roots: Sequence[Any], go_on: Call) -> Any:
        note(roots)
        return go_on()

    for place in declared.ENGINES:
        place.replace(lambda call: call["t_outputs"], run)


def without_donated_buffers() -> AbstractContextManager[Any]:
    """Let backward passes retain their graph, though their compiled code could reuse the memory of saved tensors."""
    return declared.DONATED_BUFFERS.patched(False)


def _compilers_of(call: Arguments, names: tuple[str, ...]) -> tuple[list[Any], Callable[..., None]] | None:
    """Return the backend's functions in a call, and what replaces them; None if they are nowhere in its arguments.

    They are arguments since torch 2.13, and attributes of the configuration before: of an argument, or of an argument's
    attribute. Without a compiler for inference, AOTAutograd takes the one for training. A configuration that cannot be
    written raises AttributeError.
    """
    if all(name in call for name in names):
        return [call[name] for name in names], lambda *given: call.update(zip(names, given, strict=True))
    config: Any = call.get("aot_config", getattr(call.get("aot_state"), "aot_config", None))
    if not all(hasattr(config, name) for name in names):
        return None

    def replace(*given: Compiler) -> None:
        for name, compiler in zip(names, given, strict=True):
            setattr(config, name, compiler)

    compilers = [getattr(config, name) or config.fw_compiler for name in names]
    replace(*compilers)
    return compilers, replace


def _replace(interface: Interface, names: tuple[str, ...], stage: Callable[..., Any]) -> Callable[[], None]:
    """Call `stage` in the place of a function of AOTAutograd. A call that is not understood goes to the original."""

    def compile_graph(found: tuple[list[Any], Callable[..., None]] | None, go_on: Callable[[], Any]) -> Any:
        if found is None:
            interface.tell_loss(f"the arguments of {interface.place} hold no compilers")
            return go_on()
        compilers, replace = found

        def go_on_with(*given: Compiler) -> Any:
            replace(*given)
            return go_on()

        return stage(*compilers, go_on_with)

    return interface.replace(lambda call: _compilers_of(call, names), compile_graph)


def replace_stages(training: Training, inference: Inference) -> Callable[[], None]:
    """Patch AOTAutograd: call `training` or `inference` for its functions that compile a traced graph.

    Return a function that undoes this; the last replacement is undone first.
    """
    declared.AOT_MODULE.find()  # its parts import each other
    return ending_all(
        _replace(declared.COMPILE_TRAINING, ("fw_compiler", "bw_compiler"), training),
        _replace(declared.COMPILE_INFERENCE, ("inference_compiler",), inference),
    )
