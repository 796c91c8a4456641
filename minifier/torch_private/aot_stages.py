"""AOTAutograd's functions that call a backend's compilers; their form depends on the release of torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minifier.interfaces.declared import AOT, Arguments, Interface, ending_all, stands_on

# Imported on demand, as this takes a fifth of a second.
_AOT_AUTOGRAD = stands_on("torch._functorch.aot_autograd:aot_module_simplified", loses=AOT)
_TRAINING = stands_on(
    "torch._functorch._aot_autograd.graph_compile:aot_stage2_autograd",
    "torch._functorch.aot_autograd:aot_dispatch_autograd",  # in torch 2.8
    loses=AOT,
)
_INFERENCE = stands_on(
    "torch._functorch._aot_autograd.graph_compile:aot_stage2_inference",
    "torch._functorch.aot_autograd:aot_dispatch_base",
    loses=AOT,
)
_FORWARD_AND_BACKWARD = ("fw_compiler", "bw_compiler")
_FOR_INFERENCE = ("inference_compiler",)

Compiler = Callable[..., Any]
# Called with the compilers of one graph, and a function that compiles it with those that it is given.
Training = Callable[[Compiler, Compiler, Callable[[Compiler, Compiler], Any]], Any]
Inference = Callable[[Compiler, Callable[[Compiler], Any]], Any]


def _compilers_of(call: Arguments, names: tuple[str, ...]) -> tuple[list[Any], Callable[..., None]] | None:
    """Return the compilers of a call and a function that replaces them; None if they are nowhere in its arguments.

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
    """Call `training` or `inference` in the place of AOTAutograd's functions that compile a traced graph.

    Return a function that ends this; the last replacement has to end first.
    """
    _AOT_AUTOGRAD.find()  # its parts import each other
    return ending_all(
        _replace(_TRAINING, _FORWARD_AND_BACKWARD, training),
        _replace(_INFERENCE, _FOR_INFERENCE, inference),
    )
