"""AOTInductor: the calls that compile an exported program and load and run its package."""

from __future__ import annotations

import copy
import functools
import os
import weakref
from collections.abc import Callable
from typing import Any

import torch
import torch._inductor
from torch._ops import OpOverload
from torch.utils._pytree import tree_leaves

from minifier.interfaces.declared import EXPORTED, TORCH, ending_all, stands_on

_COMPILE = stands_on(
    "torch._inductor:aoti_compile_and_package", loses=EXPORTED, parameters=("exported_program", "inductor_configs")
)
_LOAD = stands_on("torch._inductor:aoti_load_package", loses=EXPORTED, parameters=("path",))
_RUN = stands_on("torch._C._aoti:AOTIModelPackageLoader.boxed_run", loses=EXPORTED)
# The guards on inputs came with torch 2.9; eager has none.
_UNGUARDED: dict[str, Any] = {"check_guards": False} if TORCH >= (2, 9) else {}

OnCompile = Callable[[torch.export.ExportedProgram, "dict[str, Any] | None", Callable[[], Any]], Any]
OnLoad = Callable[[str, Callable[..., Any]], "Callable[..., Any] | None"]


class _Loader:
    """Replaces a package's loader during a call, so that the package's run is observed; all else is the loader's."""

    def __init__(self, loader: Any, run: Callable[..., Any]) -> None:
        self._loader, self._run = loader, run

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def boxed_run(self, inputs: list[Any], *args: Any, **kwargs: Any) -> Any:
        """Return the package's flat outputs. Empties the list, like the original loader."""
        if args or kwargs:
            _RUN.tell_loss(f"{_RUN.place} is called with other arguments than the inputs")
            return self._loader.boxed_run(inputs, *args, **kwargs)
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
    runs: weakref.WeakKeyDictionary[Any, Callable[..., Any]] = weakref.WeakKeyDictionary()
    patched: list[tuple[Any, Any]] = []

    def compile_package(read: tuple[Any, Any], go_on: Callable[[], Any]) -> Any:
        program, configs = read
        if not isinstance(program, torch.export.ExportedProgram) or program.example_inputs is None:
            return go_on()  # which raises
        return on_compile(program, configs.copy() if isinstance(configs, dict) and configs else None, go_on)

    def load_package(path: Any, go_on: Callable[[], Any]) -> Any:
        model: Any = go_on()
        if isinstance(path, (str, os.PathLike)):
            _LOAD.read(lambda: observe_runs(model, os.fspath(path)))
        return model

    def observe_runs(model: Any, path: str) -> None:
        loader = model.loader
        with_run = loader.boxed_run
        observed = on_load(path, lambda *tensors: with_run(list(tensors)))
        if observed is not None:
            if not patched:
                patch(type(model))
            runs[model] = observed

    def patch(kind: Any) -> None:
        call = kind.__call__

        @functools.wraps(call)
        def __call__(self: Any, *args: Any, **kwargs: Any) -> Any:
            model = _LOAD.read(lambda: with_loader(self, runs[self]), self) if self in runs else self
            return call(model, *args, **kwargs)

        kind.__call__ = __call__
        patched.append((kind, call))

    def with_loader(model: Any, run: Callable[..., Any]) -> Any:
        copied = copy.copy(model)
        copied.loader = _Loader(model.loader, run)
        return copied

    def end_patches() -> None:
        for kind, call in patched:
            kind.__call__ = call

    return ending_all(
        _COMPILE.replace(lambda call: (call["exported_program"], call["inductor_configs"]), compile_package),
        _LOAD.replace(lambda call: call["path"], load_package),
        end_patches,
    )


def module_of_export(program: torch.export.ExportedProgram) -> tuple[torch.fx.GraphModule, list[Any]]:
    """Return the graph module of an exported program, and its example inputs in the order of its placeholders."""
    gm = program.module(**_UNGUARDED)
    assert isinstance(gm, torch.fx.GraphModule)
    return gm, tree_leaves(program.example_inputs)


def inputs_written_to(gm: torch.fx.GraphModule) -> set[str]:
    """Return the names of the inputs and attributes that an ATen graph writes to, also through views."""
    names: set[str] = set()
    for node in gm.graph.nodes:
        if not isinstance(node.target, OpOverload):
            continue
        for parameter, argument in zip(node.target._schema.arguments, node.args, strict=False):
            if parameter.is_write and isinstance(argument, torch.fx.Node):
                base = _base_of_view(argument)
                names |= {base.name} if base.op in ("placeholder", "get_attr") else set()
    return names


def _base_of_view(node: torch.fx.Node) -> torch.fx.Node:
    while isinstance(node.target, OpOverload) and isinstance(node.args[0], torch.fx.Node):
        if not any(result.alias_info is not None for result in node.target._schema.returns):
            break
        node = node.args[0]
    return node
