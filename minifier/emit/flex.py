"""Write flex attention as its public call: a graph holds the internal operator with arguments that torch added."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from minifier.case import Case, Graph, Node, Ref, TensorMeta
from minifier.case.graph import map_refs, refs_in
from minifier.interfaces.names import FLEX

_PUBLIC = "torch.nn.attention.flex_attention:flex_attention"
_NO_MASK_BLOCK_SIZE = 1 << 30  # torch represents "no mask" as a mask with this block size
_DEFAULT_KERNEL_OPTIONS = {
    "BACKEND": "AUTO",
    "PRESCALE_QK": False,
    "ROWS_GUARANTEED_SAFE": False,
    "BLOCKS_ARE_CONTIGUOUS": False,
    "WRITE_DQ": True,
    "OUTPUT_MAX": False,
}


def _public_call(graph: Graph, node: Node) -> Node | None:
    """Return the call of the public function. None for unsupported arguments: a block mask, or tensors captured by
    the score function."""
    if len(node.args) != 9 or node.kwargs:
        return None
    query, key, value, score_mod, mask, scale, options, score_tensors, mask_tensors = node.args
    if score_tensors or mask_tensors or not isinstance(mask, tuple) or _NO_MASK_BLOCK_SIZE not in mask:
        return None
    kwargs: dict[str, Any] = {}
    if not _is_identity(graph, score_mod):
        kwargs["score_mod"] = score_mod
    size = graph.node(query.name).value if isinstance(query, Ref) else None
    if not (isinstance(size, TensorMeta) and size.shape and math.isclose(scale, size.shape[-1] ** -0.5)):
        kwargs["scale"] = scale
    heads = [graph.node(ref.name).value for ref in (query, key) if isinstance(ref, Ref)]
    if len({value.shape[1] for value in heads if isinstance(value, TensorMeta)}) > 1:
        kwargs["enable_gqa"] = True
    if options.get("OUTPUT_LOGSUMEXP"):
        kwargs["return_lse"] = True
    user_options = {k: v for k, v in options.items() if k != "OUTPUT_LOGSUMEXP" and _DEFAULT_KERNEL_OPTIONS.get(k) != v}
    if user_options:
        kwargs["kernel_options"] = user_options
    return replace(node, target=_PUBLIC, args=(query, key, value), kwargs=kwargs)


def _is_identity(graph: Graph, score_mod: Any) -> bool:
    """Whether the score function returns the score unchanged."""
    module = graph.modules.get(graph.node(score_mod.name).target) if isinstance(score_mod, Ref) else None
    if module is None or module.graph is None or module.graph.ops:
        return False
    return next(refs_in(module.graph.output.args), None) == module.graph.nodes[0].name


def _is_first_of(node: Node, names: set[str]) -> bool:
    return node.target == "operator.getitem" and node.args[0].name in names and node.args[1] == 0


def with_public_flex(case: Case) -> Case:
    """Return the Case with calls of the public flex_attention, and without inputs that only the operator took."""
    public_calls = {n.name: call for n in case.graph.ops if n.target == FLEX and (call := _public_call(case.graph, n))}
    if not public_calls:
        return case
    no_tuple = {name for name, call in public_calls.items() if "return_lse" not in call.kwargs}  # returns one tensor
    aliases = {node.name: node.args[0].name for node in case.graph.ops if _is_first_of(node, no_tuple)}
    nodes = [public_calls.get(node.name, node) for node in case.graph.nodes if node.name not in aliases]

    def renamed(ref: Ref) -> Ref:
        return Ref(aliases.get(ref.name, ref.name))

    graph = replace(
        case.graph,
        nodes=tuple(replace(n, args=map_refs(n.args, renamed), kwargs=map_refs(n.kwargs, renamed)) for n in nodes),
    )
    used = {name for node in graph.nodes for name in node.refs()}
    used_nodes = tuple(n for n in graph.nodes if n.op not in ("placeholder", "get_attr") or n.name in used)
    names = {node.name for node in used_nodes}
    inputs = tuple(i for i in case.inputs if i.name in names)
    return replace(case, graph=replace(graph, nodes=used_nodes), inputs=inputs)
