"""Exported programs that AOTInductor compiles: seen as calls of a backend that exports what it gets."""

from __future__ import annotations

import operator
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

import repro_templates
from minifier.capturing.script import AOT_INDUCTOR
from minifier.capturing.written import option
from minifier.case import BackendReference, Reach
from minifier.errors import CannotSave
from minifier.failure import Stage

if TYPE_CHECKING:
    from minifier.capturing.observer import Observer
    from minifier.capturing.record import Record


def definition() -> str:
    """The source of that backend, as it stands in a repro."""
    return Path(repro_templates.__file__).with_name(f"{AOT_INDUCTOR}.py").read_text(encoding="utf-8")


def reference_to(configs: dict[str, Any] | None) -> BackendReference:
    """AOTInductor with this configuration."""
    try:
        options = None if configs is None else {str(key): option(value) for key, value in configs.items()}
    except CannotSave as error:
        return BackendReference(AOT_INDUCTOR, Reach.NONE, reason=f"of what it is given: {error}")
    return BackendReference(AOT_INDUCTOR, Reach.DEFINED, AOT_INDUCTOR, options=options, names=(AOT_INDUCTOR,))


def with_tensors_as_inputs(gm: torch.fx.GraphModule) -> tuple[torch.fx.GraphModule, list[torch.Tensor]]:
    """The module with the tensors that it holds as first inputs of its graph, as Dynamo has parameters; and these."""
    graph = torch.fx.Graph()
    held: dict[str, torch.Tensor] = {}
    inputs: dict[str, torch.fx.Node] = {}
    made: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in gm.graph.find_nodes(op="get_attr"):
        target = str(node.target)
        value = operator.attrgetter(target)(gm)
        if isinstance(value, torch.Tensor):
            if target not in held:
                held[target], inputs[target] = value, graph.placeholder(target.replace(".", "_"))
                inputs[target].meta["example_value"] = value
            made[node] = inputs[target]
    for node in gm.graph.nodes:
        if node not in made:
            made[node] = graph.node_copy(node, made.__getitem__)
    return torch.fx.GraphModule(gm, graph), list(held.values())


class ExportedObserver:
    """The hooks of `observe_aot_inductor`."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._compiled: dict[str, tuple[Record, list[torch.Tensor]]] = {}

    def compiling(
        self,
        gm: torch.fx.GraphModule,
        inputs: Sequence[Any],
        configs: dict[str, Any] | None,
        call: Callable[[], Any],
    ) -> Any:
        """Around the compilation of one program."""
        if not self._observer.is_watching:
            return call()
        gm, held = with_tensors_as_inputs(gm)
        given = [*held, *inputs]
        record = self._observer.record(gm, given, lambda: reference_to(configs), definition())
        path = self._observer.around_compile(record, Stage.COMPILE, given, call)
        if isinstance(path, (str, os.PathLike)):
            self._compiled[os.fspath(path)] = record, held
        return path

    def loaded(self, path: str, run: Callable[..., Any]) -> Callable[..., Any]:
        """What is run in the place of a package that was compiled while this was watching."""
        if path not in self._compiled:
            return run
        record, held = self._compiled[path]
        observed = self._observer.observed(record, lambda *args: run(*args[len(held) :]))
        return lambda *inputs: observed(*held, *inputs)
