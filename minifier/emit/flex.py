"""Flex attention as a person calls it: the graph has the operator behind it, with the arguments that torch made up."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from minifier.case import Case, Graph, Node, Ref, TensorMeta
from minifier.case.graph import FLEX, map_refs, refs_in

_PUBLIC = "torch.nn.attention.flex_attention:flex_attention"
_ANY_BLOCK = 1 << 30  # the block size of the mask that stands for none
# What torch puts into kernel_options by itself.
_OPTIONS = {
    "BACKEND": "AUTO",
    "PRESCALE_QK": False,
    "ROWS_GUARANTEED_SAFE": False,
    "BLOCKS_ARE_CONTIGUOUS": False,
    "WRITE_DQ": True,
    "OUTPUT_MAX": False,
}


def _public(graph: Graph, node: Node) -> Node | None:
    """The call of the public function; None where it would take more than this can write (a block mask, tensors that
    the score function captured)."""
    if len(node.args) != 9 or node.kwargs:
        return None
    query, key, value, score_mod, mask, scale, options, of_score, of_mask = node.args
    if of_score or of_mask or not isinstance(mask, tuple) or _ANY_BLOCK not in mask:
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
    asked = {k: v for k, v in options.items() if k != "OUTPUT_LOGSUMEXP" and _OPTIONS.get(k) != v}
    if asked:
        kwargs["kernel_options"] = asked
    return replace(node, target=_PUBLIC, args=(query, key, value), kwargs=kwargs)


def _is_identity(graph: Graph, score_mod: Any) -> bool:
    """Whether the score function gives back the score."""
    held = graph.modules.get(graph.node(score_mod.name).target) if isinstance(score_mod, Ref) else None
    if held is None or held.graph is None or held.graph.ops:
        return False
    return next(refs_in(held.graph.output.args), None) == held.graph.nodes[0].name


def _is_first_of(node: Node, names: set[str]) -> bool:
    return node.target == "operator.getitem" and node.args[0].name in names and node.args[1] == 0


def with_public_flex(case: Case) -> Case:
    """The Case with calls of flex_attention, and without the inputs that only the operator took."""
    changed: dict[str, Node] = {}
    for node in case.graph.ops:
        if node.target == FLEX:
            public = _public(case.graph, node)
            if public is not None:
                changed[node.name] = public
    if not changed:
        return case
    alone = {name for name, call in changed.items() if "return_lse" not in call.kwargs}  # which give no tuple then
    same = {node.name: node.args[0].name for node in case.graph.ops if _is_first_of(node, alone)}
    nodes = [changed.get(node.name, node) for node in case.graph.nodes if node.name not in same]

    def renamed(ref: Ref) -> Ref:
        return Ref(same.get(ref.name, ref.name))

    graph = replace(
        case.graph,
        nodes=tuple(replace(n, args=map_refs(n.args, renamed), kwargs=map_refs(n.kwargs, renamed)) for n in nodes),
    )
    used = {name for node in graph.nodes for name in node.refs()}
    kept = tuple(n for n in graph.nodes if n.op not in ("placeholder", "get_attr") or n.name in used)
    names = {node.name for node in kept}
    return replace(case, graph=replace(graph, nodes=kept), inputs=tuple(i for i in case.inputs if i.name in names))
