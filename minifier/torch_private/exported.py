"""AOTInductor: the calls that compile an exported program and load and run its package."""

from __future__ import annotations

import functools
import os
import weakref
from collections.abc import Callable
from typing import Any

import torch
import torch._inductor
from torch.utils import _pytree as pytree

OnCompile = Callable[[torch.export.ExportedProgram, "dict[str, Any] | None", Callable[[], Any]], Any]
OnLoad = Callable[[str, Callable[..., Any]], "Callable[..., Any] | None"]


class _Loader:
    """Replaces a package's loader during a call, so that the package's run is observed."""

    def __init__(self, loader: Any, run: Callable[..., Any]) -> None:
        self.get_call_spec = loader.get_call_spec
        self._run = run

    def boxed_run(self, inputs: list[Any]) -> Any:
        """Return the package's flat outputs. Empties the list, like the original loader."""
        tensors = tuple(inputs)
        inputs.clear()
        return self._run(*tensors)


def observe_aot_inductor(on_compile: OnCompile, on_load: OnLoad) -> Callable[[], None]:
    """Observe the compilation and loading of packages.

    `on_compile(program, configs, call)` wraps every call of `torch._inductor.aoti_compile_and_package`, and must return
    the result of `call()`, a path. `on_load(path, run)` is called for each loaded package; `run(*tensors)` returns the
    list of its outputs. A result of `on_load` that is not None replaces `run`.

    Return a function that ends this. Observers must end in reverse order.
    """
    module: Any = torch._inductor
    compile_original, load_original = module.aoti_compile_and_package, module.aoti_load_package
    runs: weakref.WeakKeyDictionary[Any, Callable[..., Any]] = weakref.WeakKeyDictionary()
    patched: list[tuple[Any, Any]] = []

    @functools.wraps(compile_original)
    def aoti_compile_and_package(program: Any, *args: Any, **kwargs: Any) -> Any:
        def call() -> Any:
            return compile_original(program, *args, **kwargs)

        if not isinstance(program, torch.export.ExportedProgram) or program.example_inputs is None:
            return call()  # which raises
        configs = kwargs.get("inductor_configs")
        return on_compile(program, dict(configs) if configs else None, call)

    @functools.wraps(load_original)
    def aoti_load_package(path: Any, *args: Any, **kwargs: Any) -> Any:
        model: Any = load_original(path, *args, **kwargs)
        if isinstance(path, (str, os.PathLike)):
            loader = model.loader
            observed = on_load(os.fspath(path), lambda *tensors: loader.boxed_run(list(tensors)))
            if observed is not None:
                if not patched:
                    patch(type(model))
                runs[model] = observed
        return model

    def patch(kind: Any) -> None:
        call = kind.__call__

        @functools.wraps(call)
        def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
            if self in runs:
                return call(kind(_Loader(self.loader, runs[self])), *args, **kwargs)
            return call(self, *args, **kwargs)

        kind.__call__ = __call__
        patched.append((kind, call))

    module.aoti_compile_and_package = aoti_compile_and_package
    module.aoti_load_package = aoti_load_package

    def end() -> None:
        module.aoti_compile_and_package = compile_original
        module.aoti_load_package = load_original
        for kind, call in patched:
            kind.__call__ = call

    return end


def module_of_export(program: torch.export.ExportedProgram) -> tuple[torch.fx.GraphModule, list[Any]]:
    """Return the graph module of an exported program, and its example inputs in the order of its placeholders."""
    gm = program.module(check_guards=False)
    assert isinstance(gm, torch.fx.GraphModule)
    return gm, pytree.tree_leaves(program.example_inputs)


def inputs_written_to(gm: torch.fx.GraphModule) -> set[str]:
    """Return the names of the inputs and attributes that an ATen graph writes to, also through views."""
    names: set[str] = set()
    for node in gm.graph.nodes:
        if not isinstance(node.target, torch._ops.OpOverload):
            continue
        for parameter, argument in zip(node.target._schema.arguments, node.args, strict=False):
            if parameter.is_write and isinstance(argument, torch.fx.Node):
                base = _base_of_view(argument)
                names |= {base.name} if base.op in ("placeholder", "get_attr") else set()
    return names


def _base_of_view(node: torch.fx.Node) -> torch.fx.Node:
    while isinstance(node.target, torch._ops.OpOverload) and isinstance(node.args[0], torch.fx.Node):
        if not any(result.alias_info is not None for result in node.target._schema.returns):
            break
        node = node.args[0]
    return node
