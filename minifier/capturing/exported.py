"""Calls of compilers behind AOTAutograd and AOTInductor, observed as calls of a backend."""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from minifier.capturing.graph_record import Record
from minifier.capturing.object_source import option
from minifier.capturing.script import AOT_INDUCTOR
from minifier.data.case import BackendReference, BackendSource
from minifier.data.failure import Stage
from minifier.data.templates import template_source
from minifier.errors import CannotSave
from minifier.torch_side.compare.results import random_state_kept
from minifier.torch_side.torch_private.inductor import inputs_written_to, module_of_export

if TYPE_CHECKING:
    from minifier.capturing.observer import Observer


def reference_to(configs: dict[str, Any] | None) -> BackendReference:
    """Return the reference to AOTInductor with this configuration."""
    try:
        options = None if configs is None else {str(key): option(value) for key, value in configs.items()}
    except CannotSave as error:
        return BackendReference(AOT_INDUCTOR, BackendSource.NONE, reason=f"of what it is given: {error}")
    return BackendReference(AOT_INDUCTOR, BackendSource.DEFINED, AOT_INDUCTOR, options=options, names=(AOT_INDUCTOR,))


def with_tensors_as_inputs(gm: torch.fx.GraphModule) -> tuple[torch.fx.GraphModule, list[torch.Tensor]]:
    """Turn the module's own tensors into the first inputs of its graph, as Dynamo does; return module and tensors.

    The tensors need no gradients: a package computes none.
    """
    graph = torch.fx.Graph()
    held: dict[str, torch.Tensor] = {}
    inputs: dict[str, torch.fx.Node] = {}
    copies: dict[torch.fx.Node, torch.fx.Node] = {}
    for node in gm.graph.find_nodes(op="get_attr"):
        target = str(node.target)
        value = operator.attrgetter(target)(gm)
        if isinstance(value, torch.Tensor):
            if target not in held:
                held[target] = value.detach()
                inputs[target] = _placeholder(graph, re.sub(r"\W", "_", f"p_{target}"))
                inputs[target].meta["example_value"] = held[target]
            copies[node] = inputs[target]
    for node in gm.graph.nodes:
        if node.op == "placeholder":
            copies[node] = _placeholder(graph, node.name)
            copies[node].meta = dict(node.meta)
        elif node not in copies:
            copies[node] = graph.node_copy(node, copies.__getitem__)
    return torch.fx.GraphModule(gm, graph), list(held.values())


def _placeholder(graph: torch.fx.Graph, name: str) -> torch.fx.Node:
    """Add an input whose argument gets the node's name, which is unique in the graph."""
    node = graph.placeholder(name)
    node.target = node.name
    return node


@dataclass(frozen=True, slots=True)
class _ExportedProgram:
    """A compiled exported program: its graph, its own tensors (`held`), and the example inputs of its export.

    A package has copies of the held tensors. `changed` has those that it changes, as they were when it was compiled, by
    their positions.
    """

    record: Record
    gm: torch.fx.GraphModule
    held: list[torch.Tensor]
    inputs: list[Any]
    changed: dict[int, torch.Tensor]

    def arguments(self, held: Sequence[torch.Tensor], tensors: Sequence[torch.Tensor]) -> list[Any]:
        """Build the graph's arguments from the given tensors; other inputs keep their exported values."""
        remaining = (tensor.detach() for tensor in tensors)
        return [*held, *(next(remaining) if isinstance(item, torch.Tensor) else item for item in self.inputs)]

    def step(self, held: Sequence[torch.Tensor], inputs: Sequence[Any]) -> None:
        """Change the held tensors as eager does in a call with these inputs."""
        with torch.no_grad(), random_state_kept():
            self.gm(*held, *inputs)


class ExportedObserver:
    """The hooks of `observe_aot_inductor`."""

    def __init__(self, observer: Observer) -> None:
        self._observer = observer
        self._compiled: dict[str, _ExportedProgram] = {}

    def compiling(
        self, program: torch.export.ExportedProgram, configs: dict[str, Any] | None, call: Callable[[], Any]
    ) -> Any:
        """Observe the compilation of a program."""
        if not self._observer.is_watching:
            return call()
        try:
            gm, inputs = module_of_export(program)
            gm, held = with_tensors_as_inputs(gm)
            names = [node.name for node in gm.graph.find_nodes(op="placeholder")]
            written = inputs_written_to(gm)
            changed = {i: tensor.detach().clone() for i, tensor in enumerate(held) if names[i] in written}
        except Exception:  # noqa: BLE001 - the script continues as without minify
            return call()
        arguments = [*held, *inputs]
        record = self._observer.record(gm, arguments, lambda: (reference_to(configs), template_source(AOT_INDUCTOR)))
        path = self._observer.around_compile(record, Stage.COMPILE, arguments, call)
        if isinstance(path, (str, os.PathLike)):
            self._compiled[os.path.realpath(path)] = _ExportedProgram(record, gm, held, inputs, changed)
        return path

    def loaded(self, path: str, run: Callable[..., Any]) -> Callable[..., Any] | None:
        """Return an observed replacement of `run` for a package whose compilation was observed; else None."""
        program = self._compiled.get(os.path.realpath(path))
        if program is None:
            return None
        count = len(program.held)
        positions = [count + i for i, item in enumerate(program.inputs) if isinstance(item, torch.Tensor)]
        held = [program.changed[i].clone() if i in program.changed else t for i, t in enumerate(program.held)]

        def call(*args: Any) -> Any:
            """Call the package, whose own tensors nobody sees, and change those of eager as eager does."""
            steps = program.changed and self._observer.terms.comparing is not None
            inputs = [t.clone() if isinstance(t, torch.Tensor) else t for t in args[count:]] if steps else []
            result = run(*(args[i] for i in positions))
            if steps:
                program.step(held, inputs)
            return result

        observed = self._observer.observed(program.record, call)
        return lambda *tensors: observed(*program.arguments(held, tensors))
