"""Cases of real graphs, captured in this process, and backends that refuse one thing each, called in it as well."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from fake_prober import seen_failure

from minifier.data.case import (
    BackendReference,
    BackendSource,
    Case,
    Graph,
    Input,
    ScalarInput,
    Script,
    State,
    TensorInput,
)
from minifier.data.case.store import TENSORS
from minifier.data.failure import Failure, Fingerprint, Kind, Stage
from minifier.reduction.probe.children import ChildEnd
from minifier.reduction.probe.evaluate import evaluate
from minifier.reduction.probe.prepared_case import PreparedCase
from minifier.torch_side.fx.arguments import tensor_meta
from minifier.torch_side.fx.graphs import read_graph
from minifier.torch_side.fx.tensors import StoredTensors, TensorFile


@dataclass(frozen=True)
class Captured:
    """The graph that Dynamo made of a function, and the inputs of its call, their values in a file."""

    graph: Graph
    inputs: tuple[Input, ...]
    tensors: Path | None


def captured(function: Callable[..., Any], args: Sequence[Any], folder: Path) -> Captured:
    """The one graph of a call of the function, as a script's run leaves it."""
    found: list[tuple[Graph, TensorFile, Sequence[Any]]] = []

    def backend(gm: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        tensors = TensorFile()
        found.append((read_graph(gm, tensors), tensors, list(example_inputs)))
        return gm.forward

    torch._dynamo.reset()
    torch.compile(function, backend=backend, fullgraph=True)(*args)
    torch._dynamo.reset()
    ((graph, tensors, values),) = found
    pairs = [(node.name, value) for node, value in zip(graph.placeholders, values, strict=True)]
    stored = tensors.add_inputs({name: value for name, value in pairs if isinstance(value, torch.Tensor)})
    storages: dict[object, int] = {}
    inputs = tuple(
        TensorInput(
            name, tensor_meta(value, storages), stored[name], value.is_leaf, isinstance(value, torch.nn.Parameter)
        )
        if isinstance(value, torch.Tensor)
        else ScalarInput(name, value)
        for name, value in pairs
    )
    return Captured(graph, inputs, tensors.write(folder / TENSORS))


def refused_case(
    graph: Captured, what: str, *, function: str = "refuse", stage: Stage = Stage.COMPILE, grad: bool = True
) -> Case:
    """The Case of the graph and a backend of refused.py, with the failure that it shows on it up to this stage."""
    imports = ("import functools", "import refused")
    backend = BackendReference(
        what, BackendSource.IMPORTED, f"functools.partial(refused.{function}, what={what!r})", imports
    )
    unknown = Failure(Fingerprint(stage, Kind.EXCEPTION), "", "")
    case = Case(graph.graph, graph.inputs, backend, unknown, State(grad=grad), Script("failing"), graph.tensors)
    ended = ChildEnd(evaluate(PreparedCase(case, StoredTensors(case.tensors)), case, stage), 0.01, status=0)
    return replace(case, failure=seen_failure(ended, case.graph.free_names))
