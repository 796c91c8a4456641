"""AOTInductor, which is given an exported program: the calls that compile one, and those of what was compiled."""

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
    """In the place of a package's loader for one call: its runs are observed."""

    def __init__(self, loader: Any, run: Callable[..., Any]) -> None:
        self.get_call_spec = loader.get_call_spec
        self._run = run

    def boxed_run(self, inputs: list[Any]) -> Any:
        """The outputs of the package, flat; as the loader's own, it empties the list."""
        given = tuple(inputs)
        inputs.clear()
        return self._run(*given)


def observe_aot_inductor(on_compile: OnCompile, on_load: OnLoad) -> Callable[[], None]:
    """From now on `on_compile(program, configs, call)` stands around every call of
    `torch._inductor.aoti_compile_and_package`; it must give back what `call()` gives, a path. `on_load(path, run)` is
    told of each package that is loaded, `run(*tensors)` giving the list of its outputs; what it gives back, if that is
    not None, is run in its place. Gives a function that ends this; the last that was begun has to be ended first."""
    module: Any = torch._inductor
    compile_it, load_it = module.aoti_compile_and_package, module.aoti_load_package
    runs: weakref.WeakKeyDictionary[Any, Callable[..., Any]] = weakref.WeakKeyDictionary()
    patched: list[tuple[Any, Any]] = []

    @functools.wraps(compile_it)
    def aoti_compile_and_package(program: Any, *args: Any, **kwargs: Any) -> Any:
        def call() -> Any:
            return compile_it(program, *args, **kwargs)

        if not isinstance(program, torch.export.ExportedProgram) or program.example_inputs is None:
            return call()  # which says that it cannot be
        configs = kwargs.get("inductor_configs")
        return on_compile(program, dict(configs) if configs else None, call)

    @functools.wraps(load_it)
    def aoti_load_package(path: Any, *args: Any, **kwargs: Any) -> Any:
        model: Any = load_it(path, *args, **kwargs)
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
        module.aoti_compile_and_package = compile_it
        module.aoti_load_package = load_it
        for kind, call in patched:
            kind.__call__ = call

    return end


def module_of_export(program: torch.export.ExportedProgram) -> tuple[torch.fx.GraphModule, list[Any]]:
    """The graph module of an exported program, and the inputs that it was exported with, in the order of its
    placeholders."""
    gm = program.module(check_guards=False)
    assert isinstance(gm, torch.fx.GraphModule)
    return gm, pytree.tree_leaves(program.example_inputs)


def inputs_written_to(gm: torch.fx.GraphModule) -> set[str]:
    """The names of the inputs, and of what the module holds, that the ops of a graph of ATen's write to, through views
    too."""
    found: set[str] = set()
    for node in gm.graph.nodes:
        if not isinstance(node.target, torch._ops.OpOverload):
            continue
        for said, given in zip(node.target._schema.arguments, node.args, strict=False):
            if said.is_write and isinstance(given, torch.fx.Node):
                written = _viewed(given)
                found |= {written.name} if written.op in ("placeholder", "get_attr") else set()
    return found


def _viewed(node: torch.fx.Node) -> torch.fx.Node:
    while isinstance(node.target, torch._ops.OpOverload) and isinstance(node.args[0], torch.fx.Node):
        if not any(each.alias_info is not None for each in node.target._schema.returns):
            break
        node = node.args[0]
    return node
