"""AOTInductor, which is given an exported program: the calls that compile one, and those of what was compiled."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch._inductor
from torch.utils import _pytree as pytree

OnCompile = Callable[[torch.fx.GraphModule, Sequence[Any], "dict[str, Any] | None", Callable[[], Any]], Any]
OnLoad = Callable[[str, Callable[..., Any]], Callable[..., Any]]


class _Loader:
    """A loader of a compiled package whose runs are observed."""

    def __init__(self, loader: Any, run: Callable[..., Any]) -> None:
        self._loader, self._run = loader, run

    def boxed_run(self, inputs: list[Any]) -> Any:
        """The outputs of the package, flat; as the loader's own, it empties the list."""
        given = tuple(inputs)
        inputs.clear()
        return self._run(*given)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)


def observe_aot_inductor(on_compile: OnCompile, on_load: OnLoad) -> Callable[[], None]:
    """From now on `on_compile(graph_module, inputs, configs, call)` stands around every call of
    `torch._inductor.aoti_compile_and_package`; it must give back what `call()` gives, a path. `on_load(path, run)` is
    told of each package that is loaded, `run(*inputs)` giving the list of its outputs; what it gives back is run in its
    place. Gives a function that ends this; the last that was begun has to be ended first."""
    module: Any = torch._inductor
    compile_it, load_it = module.aoti_compile_and_package, module.aoti_load_package

    @functools.wraps(compile_it)
    def aoti_compile_and_package(program: Any, *args: Any, **kwargs: Any) -> Any:
        def call() -> Any:
            return compile_it(program, *args, **kwargs)

        if not isinstance(program, torch.export.ExportedProgram) or program.example_inputs is None:
            return call()  # which says that it cannot be
        configs = kwargs.get("inductor_configs")
        gm = program.module(check_guards=False)
        return on_compile(gm, pytree.tree_leaves(program.example_inputs), dict(configs) if configs else None, call)

    @functools.wraps(load_it)
    def aoti_load_package(path: Any, *args: Any, **kwargs: Any) -> Any:
        model: Any = load_it(path, *args, **kwargs)
        if isinstance(path, (str, os.PathLike)):
            loader = model.loader

            def run(*inputs: Any) -> Any:
                return loader.boxed_run(list(inputs))

            observed = on_load(os.fspath(path), run)
            if observed is not run:
                model.loader = _Loader(loader, observed)
        return model

    module.aoti_compile_and_package = aoti_compile_and_package
    module.aoti_load_package = aoti_load_package

    def end() -> None:
        module.aoti_compile_and_package = compile_it
        module.aoti_load_package = load_it

    return end
