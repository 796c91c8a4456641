"""Exported programs that AOTInductor compiles: seen as calls of a backend that exports what it gets."""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from minifier.capturing.object_source import option
from minifier.capturing.script import AOT_INDUCTOR
from minifier.case import BackendReference, BackendSource
from minifier.errors import CannotSave
from minifier.failure import Stage
from minifier.templates import template_source
from minifier.torch_private import inputs_written_to, module_of_export

if TYPE_CHECKING:
    from minifier.capturing.graph_record import Record
    from minifier.capturing.observer import Observer


def program_definition() -> str:
    """The source of that backend, as it stands in a repro."""
    return template_source(AOT_INDUCTOR)


def reference_to(configs: dict[str, Any] | None) -> BackendReference:
    """AOTInductor with this configuration."""
    try:
        options = None if configs is None else {str(key): option(value) for key, value in configs.items()}
    except CannotSave as error:
        return BackendReference(AOT_INDUCTOR, BackendSource.NONE, reason=f"of what it is given: {error}")
    return BackendReference(AOT_INDUCTOR, BackendSource.DEFINED, AOT_INDUCTOR, options=options, names=(AOT_INDUCTOR,))


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
                held[target], inputs[target] = value, _placeholder(graph, re.sub(r"\W", "_", f"p_{target}"))
                inputs[target].meta["example_value"] = value
            made[node] = inputs[target]
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            made[node] = _placeholder(graph, node.name)
            made[node].meta = dict(node.meta)
        elif node not in made:
            made[node] = graph.node_copy(node, made.__getitem__)
    return torch.fx.GraphModule(gm, graph), list(held.values())


def _placeholder(graph: torch.fx.Graph, name: str) -> torch.fx.Node:
    """An input whose argument has the name that the graph gives the node, which is another's in no case."""
    node = graph.placeholder(name)
    node.target = node.name
    return node


@dataclass(frozen=True, slots=True)
class _ExportedProgram:
    """An exported program that was compiled: tensors that it holds, and the inputs it was exported with. A package has
    copies of the tensors; one that `changes` them cannot be called once more and compared."""

    record: Record
    held: list[torch.Tensor]
    inputs: list[Any]
    changes: bool

    def arguments(self, tensors: Sequence[torch.Tensor]) -> list[Any]:
        """Of the graph, for a call with these: what is no tensor a package has as it was."""
        given = iter(tensors)
        return [*self.held, *(next(given) if isinstance(each, torch.Tensor) else each for each in self.inputs)]


class ExportedObserver:
    """The hooks of `observe_aot_inductor`."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._compiled: dict[str, _ExportedProgram] = {}

    def compiling(
        self, program: torch.export.ExportedProgram, configs: dict[str, Any] | None, call: Callable[[], Any]
    ) -> Any:
        """Around the compilation of one program."""
        if not self._observer.is_watching:
            return call()
        try:
            gm, inputs = module_of_export(program)
            gm, held = with_tensors_as_inputs(gm)
            names = [node.name for node in gm.graph.find_nodes(op="placeholder")]
            changes = not inputs_written_to(gm).isdisjoint(names[: len(held)])
        except Exception:  # noqa: BLE001 - the script goes on as without the tool
            return call()
        given = [*held, *inputs]
        record = self._observer.record(gm, given, lambda: reference_to(configs), program_definition())
        path = self._observer.around_compile(record, Stage.COMPILE, given, call)
        if isinstance(path, (str, os.PathLike)):
            self._compiled[os.path.realpath(path)] = _ExportedProgram(record, held, inputs, changes)
        return path

    def loaded(self, path: str, run: Callable[..., Any]) -> Callable[..., Any] | None:
        """What is run in the place of a package that was compiled while this was watching."""
        program = self._compiled.get(os.path.realpath(path))
        if program is None:
            return None
        places = [len(program.held) + i for i, each in enumerate(program.inputs) if isinstance(each, torch.Tensor)]
        observed = self._observer.observed(
            program.record, lambda *args: run(*(args[place] for place in places)), compares=not program.changes
        )
        return lambda *tensors: observed(*program.arguments(tensors))
