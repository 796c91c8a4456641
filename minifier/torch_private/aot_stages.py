"""AOTAutograd's functions that call a backend's compilers; their form depends on the release of torch."""

from __future__ import annotations

import functools
import importlib
import inspect
import warnings
from collections.abc import Callable
from typing import Any

import torch

# Imported on demand, as this takes a fifth of a second. Untyped, as its functions are replaced.
_GRAPH_COMPILE = "torch._functorch._aot_autograd.graph_compile"
_COMPILERS = {
    "aot_stage2_autograd": ("fw_compiler", "bw_compiler"),
    "aot_stage2_inference": ("inference_compiler",),
}

Compiler = Callable[..., Any]
# Called with the compilers of one graph, and a function that compiles it with those that it is given.
Training = Callable[[Compiler, Compiler, Callable[[Compiler, Compiler], Any]], Any]
Inference = Callable[[Compiler, Callable[[Compiler], Any]], Any]


class _Changed(Exception):
    """This torch hands the compilers over in another way than the releases that are known."""


def _of_call(call: inspect.BoundArguments, names: tuple[str, ...]) -> tuple[list[Compiler], Callable[..., None]]:
    """Return the compilers of a call, and a function that replaces them.

    They are arguments since torch 2.13, and attributes of the configuration before. Raises _Changed.
    """
    arguments = call.arguments
    if all(name in arguments for name in names):
        return [arguments[name] for name in names], lambda *given: arguments.update(zip(names, given, strict=True))
    config = getattr(arguments.get("aot_state"), "aot_config", None)
    if not all(callable(getattr(config, name, None)) for name in names):
        raise _Changed("its arguments hold no compilers")

    def replace(*given: Compiler) -> None:
        for name, compiler in zip(names, given, strict=True):
            setattr(config, name, compiler)

    return [getattr(config, name) for name in names], replace


def _around(original: Callable[..., Any], name: str, stage: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that calls `stage` in the place of `original`.

    A call that is not understood goes to the original, with a warning.
    """
    signature = inspect.signature(original)

    @functools.wraps(original)
    def compile_graph(*args: Any, **kwargs: Any) -> Any:
        call = signature.bind(*args, **kwargs)
        try:
            compilers, replace = _of_call(call, _COMPILERS[name])
        except _Changed as error:
            warnings.warn(
                f"torch-minify does not see what AOTAutograd compiles: torch {torch.__version__} has another {name}, "
                f"{error}",
                RuntimeWarning,
                stacklevel=2,
            )
            return original(*args, **kwargs)

        def go_on(*given: Compiler) -> Any:
            replace(*given)
            return original(*call.args, **call.kwargs)

        return stage(*compilers, go_on)

    return compile_graph


def replace_stages(training: Training, inference: Inference) -> Callable[[], None]:
    """Call `training` or `inference` in the place of AOTAutograd's functions that compile a traced graph.

    Return a function that ends this; the last replacement has to end first.
    """
    importlib.import_module("torch._functorch.aot_autograd")  # its parts import each other
    module: Any = importlib.import_module(_GRAPH_COMPILE)
    originals = {name: getattr(module, name) for name in _COMPILERS}
    stages: tuple[Callable[..., Any], ...] = (training, inference)
    for (name, original), stage in zip(originals.items(), stages, strict=True):
        setattr(module, name, _around(original, name, stage))

    def end() -> None:
        for name, original in originals.items():
            setattr(module, name, original)

    return end
