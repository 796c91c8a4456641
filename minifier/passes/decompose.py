"""Replacement of a composite op by its decomposition."""

from __future__ import annotations

from dataclasses import replace

from minifier.case import Case, Graph, Node, Ref, TensorMeta
from minifier.case.graph import map_refs

_ATEN = "torch.ops.aten."


def with_decomposition(case: Case, name: str, decomposition: Graph, operands: tuple[str, ...]) -> Case | None:
    """Return the Case with the op replaced by its decomposition, applied to `operands`.

    None unless the decomposition has a single computed result and calls only functions."""
    results = list(decomposition.output.refs())
    ops = [node for node in decomposition.nodes if node.op != "placeholder" and node is not decomposition.output]
    if (
        len(results) != 1
        or any(node.op != "call_function" for node in ops)
        or len(decomposition.placeholders) != len(operands)
    ):
        return None
    (result,) = results
    names = {node.name: operand for node, operand in zip(decomposition.placeholders, operands, strict=True)}
    if result in names:
        return None
    for node in ops:
        names[node.name] = name if node.name == result else _free(f"{name}_{node.name}", case.graph)

    def renamed(node: Node) -> Node:
        value = node.value
        if node.name == result:
            value = case.graph.node(name).value
        elif isinstance(value, TensorMeta):
            value = replace(value, storage=None)  # numbered in another graph
        args, kwargs = (map_refs(arg, lambda ref: Ref(names[ref.name])) for arg in (node.args, node.kwargs))
        return replace(node, name=names[node.name], args=args, kwargs=kwargs, value=value, source="", origin="")

    nodes: list[Node] = []
    for node in case.graph.nodes:
        nodes += [renamed(op) for op in ops] if node.name == name else [node]
    return replace(case, graph=replace(case.graph, nodes=tuple(nodes)))


def in_words_of_torch(graph: Graph, functions: frozenset[str]) -> Graph:
    """Return the graph with torch's functions for ATen's ops: `torch.exp` for `torch.ops.aten.exp.default`."""

    def named(node: Node) -> Node:
        short = node.target.removeprefix(_ATEN).partition(".")[0]
        return replace(node, target=f"torch.{short}") if node.target.startswith(_ATEN) and short in functions else node

    return replace(graph, nodes=tuple(map(named, graph.nodes)))


def _free(name: str, graph: Graph) -> str:
    while name in graph.index:
        name += "_"
    return name
