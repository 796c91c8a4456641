"""The tensors that a graph holds itself (`get_attr`: an optimizer's state, buffers).

They belong to the script: without care, a comparison's call of the compiled function would change them once more.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch

from minifier.case import Case, Graph, Node, TensorInput
from minifier.case.graph import renamed
from minifier.case.in_place import is_in_place
from minifier.case.inputs import Stored
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


def changed_tensors(live: Tensors, stored: StoredTensors) -> set[str]:
    """Return the keys of the live tensors that have changed since they were stored."""
    return {key for key, tensor in live.items() if not _same(tensor, stored.get(key))}


@contextlib.contextmanager
def as_before(live: Tensors, stored: StoredTensors) -> Iterator[None]:
    """Give the live tensors their stored values inside the context, and restore their present values afterwards.

    Autograd does not notice.
    """
    present = {key: live[key].detach().clone() for key in changed_tensors(live, stored)}
    with versions_kept(list(live.values())):
        try:
            for key in present:
                _write(live[key], stored.get(key))
            yield
        finally:
            for key, tensor in live.items():
                value = present.get(key, stored.get(key))
                if not _same(tensor, value):
                    _write(tensor, value)


def written_by_eager(graph: Graph, inputs: Callable[[], list[Any]], tensors: Callable[[], StoredTensors]) -> set[str]:
    """Return the keys of the held tensors that an eager run of the graph changes."""
    if not graph.attributes or not any(map(is_in_place, graph.nodes)):
        return set()
    own, before = tensors(), tensors()
    with random_state_kept(), contextlib.suppress(Exception):  # if it fails, so does the compared eager run
        build_graph(graph, own).forward(*inputs())
    return {key for key in graph.attributes.values() if not _same(own.get(key), before.get(key))}


def share_memory(keys: Collection[str], live: Tensors) -> bool:
    """Whether a tensor under these keys shares its memory with another held tensor."""
    storages = [storage_key(tensor) for tensor in live.values()]
    return any(storages.count(storage_key(live[key])) > 1 for key in keys)


def as_inputs(
    case: Case, keys: Collection[str], live: Tensors, stored: StoredTensors
) -> tuple[Case, list[torch.Tensor]]:
    """Turn the held tensors under these keys into further inputs of the Case, with the stored values.

    Return the Case and the live tensors of these inputs.
    """
    graph = case.graph
    used_storages = [item.meta.storage or 0 for item in case.inputs if isinstance(item, TensorInput)]
    names: dict[str, str] = {}  # target: name of its first node
    duplicates: dict[str, str] = {}  # name of a later node of a target: name of the first
    placeholders: list[Node] = []
    inputs: list[TensorInput] = []
    live_inputs: list[torch.Tensor] = []
    rest: list[Node] = []
    for node in graph.nodes:
        if node.op != "get_attr" or graph.attributes.get(node.target) not in keys:
            rest.append(node)
        elif node.target in names:
            duplicates[node.name] = names[node.target]
        else:
            key = graph.attributes[node.target]
            names[node.target] = node.name
            meta = tensor_meta(stored.get(key), {})
            storage = max(used_storages, default=-1) + 1 + len(inputs)
            meta = replace(meta, device=str(live[key].device), storage=storage, requires_grad=False)
            placeholders.append(replace(node, op="placeholder", target=node.name, value=meta))
            inputs.append(TensorInput(node.name, meta, Stored(key)))
            live_inputs.append(live[key].detach())
    position = len(graph.placeholders)
    attributes = {target: key for target, key in graph.attributes.items() if key not in keys}
    extended = Graph((*rest[:position], *placeholders, *rest[position:]), attributes, graph.modules)
    return replace(case, graph=renamed(extended, duplicates), inputs=(*case.inputs, *inputs)), live_inputs
