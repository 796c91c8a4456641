"""The tensors that a graph holds itself (`get_attr`: an optimizer's state, buffers). They are the script's own, so that
a second call of what was compiled would change them a second time."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch

from minifier.case import Case, Graph, Node, TensorInput
from minifier.case.graph import renamed
from minifier.case.inputs import Stored
from minifier.case.ops import is_in_place
from minifier.compare.results import random_state_kept
from minifier.fx.build import build_graph
from minifier.fx.node_arguments import tensor_meta
from minifier.fx.tensors import StoredTensors
from minifier.torch_private import storage_key, versions_kept

Tensors = Mapping[str, torch.Tensor]


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().resolve_conj().resolve_neg().cpu().contiguous().reshape(-1).view(torch.uint8)


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(_bits(a), _bits(b))


def _write(tensor: torch.Tensor, value: torch.Tensor) -> None:
    with torch.inference_mode(tensor.is_inference()), torch.no_grad():
        tensor.detach().copy_(value)


@contextlib.contextmanager
def as_before(live: Tensors, stored: StoredTensors) -> Iterator[set[str]]:
    """Inside, the live tensors have the values that were stored under their keys; afterwards those that they have now,
    and autograd does not know of it. Gives the keys of those that have changed since they were stored."""
    now = {key: tensor.detach().clone() for key, tensor in live.items() if not _same(tensor, stored.get(key))}
    with versions_kept(list(live.values())):
        try:
            for key in now:
                _write(live[key], stored.get(key))
            yield set(now)
        finally:
            for key, tensor in live.items():
                value = now.get(key, stored.get(key))
                if not _same(tensor, value):
                    _write(tensor, value)


def written_by_eager(graph: Graph, inputs: Callable[[], list[Any]], tensors: Callable[[], StoredTensors]) -> set[str]:
    """Keys of the tensors that the graph holds and changes when it is run eagerly."""
    if not graph.attributes or not any(map(is_in_place, graph.nodes)):
        return set()
    own, before = tensors(), tensors()
    with random_state_kept(), contextlib.suppress(Exception):  # if it fails, so will the run that is compared
        build_graph(graph, own).forward(*inputs())
    return {key for key in graph.attributes.values() if not _same(own.get(key), before.get(key))}


def hold_others(keys: Collection[str], live: Tensors) -> bool:
    """Whether a tensor under one of the keys shares its memory with another that the graph holds."""
    places = [storage_key(tensor) for tensor in live.values()]
    return any(places.count(storage_key(live[key])) > 1 for key in keys)


def as_inputs(
    case: Case, keys: Collection[str], live: Tensors, stored: StoredTensors
) -> tuple[Case, list[torch.Tensor]]:
    """The Case with what its graph holds under these keys as inputs after the others, with the stored values; and the
    live tensors for these."""
    graph = case.graph
    taken = [item.meta.storage or 0 for item in case.inputs if isinstance(item, TensorInput)]
    names: dict[str, str] = {}  # of the first node that gets each
    others: dict[str, str] = {}
    placeholders: list[Node] = []
    inputs: list[TensorInput] = []
    found: list[torch.Tensor] = []
    rest: list[Node] = []
    for node in graph.nodes:
        if node.op != "get_attr" or graph.attributes.get(node.target) not in keys:
            rest.append(node)
        elif node.target in names:
            others[node.name] = names[node.target]
        else:
            key = graph.attributes[node.target]
            names[node.target] = node.name
            meta = tensor_meta(stored.get(key), {})
            storage = max(taken, default=-1) + 1 + len(inputs)
            meta = replace(meta, device=str(live[key].device), storage=storage, requires_grad=False)
            placeholders.append(replace(node, op="placeholder", target=node.name, value=meta))
            inputs.append(TensorInput(node.name, meta, Stored(key)))
            found.append(live[key].detach())
    at = len(graph.placeholders)
    attributes = {target: key for target, key in graph.attributes.items() if key not in keys}
    made = Graph((*rest[:at], *placeholders, *rest[at:]), attributes, graph.modules)
    return replace(case, graph=renamed(made, others), inputs=(*case.inputs, *inputs)), found
