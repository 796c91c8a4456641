"""A composite op replaced by its parts."""

from __future__ import annotations

from dataclasses import replace

from minifier.case import Case, Graph, Node, Ref, TensorMeta
from minifier.case.graph import map_refs

_ATEN = "torch.ops.aten."


def with_decomposition(case: Case, name: str, parts: Graph, operands: tuple[str, ...]) -> Case | None:
    """The Case with the op of this name replaced by the ops of `parts`, whose placeholders stand for `operands`, and
    whose one result for the op's. None where that cannot be: nothing is computed, or tensors would have to be held."""
    results = list(parts.output.refs())
    made = [node for node in parts.nodes if node.op != "placeholder" and node is not parts.output]
    if (
        len(results) != 1
        or any(node.op != "call_function" for node in made)
        or len(parts.placeholders) != len(operands)
    ):
        return None
    (result,) = results
    names = {node.name: operand for node, operand in zip(parts.placeholders, operands, strict=True)}
    if result in names:
        return None
    for node in made:
        names[node.name] = name if node.name == result else _free(f"{name}_{node.name}", case.graph)

    def renamed(node: Node) -> Node:
        value = node.value
        if node.name == result:
            value = case.graph.node(name).value
        elif isinstance(value, TensorMeta):
            value = replace(value, storage=None)  # numbered in another graph
        args, kwargs = (map_refs(each, lambda ref: Ref(names[ref.name])) for each in (node.args, node.kwargs))
        return replace(node, name=names[node.name], args=args, kwargs=kwargs, value=value, source="", origin="")

    nodes: list[Node] = []
    for node in case.graph.nodes:
        nodes += [renamed(part) for part in made] if node.name == name else [node]
    return replace(case, graph=replace(case.graph, nodes=tuple(nodes)))


def in_words_of_torch(graph: Graph, exists: frozenset[str]) -> Graph:
    """The graph with torch's functions in place of ATen's ops: `torch.exp` for `torch.ops.aten.exp.default`, where that
    name is among those that torch has."""

    def named(node: Node) -> Node:
        short = node.target.removeprefix(_ATEN).partition(".")[0]
        return replace(node, target=f"torch.{short}") if node.target.startswith(_ATEN) and short in exists else node

    return replace(graph, nodes=tuple(map(named, graph.nodes)))


def _free(wanted: str, graph: Graph) -> str:
    while wanted in graph.index:
        wanted += "_"
    return wanted
