"""A Case as the function that a user would write: without what Dynamo adds for symbolic numbers."""

from __future__ import annotations

from dataclasses import replace

from minifier.case.case import Case, Level
from minifier.case.graph import Graph, Node, Ref, map_refs
from minifier.case.inputs import Input, ScalarInput, Stored, TensorInput
from minifier.case.script_floats import floats_in_tensors
from minifier.case.values import TensorMeta, contiguous_stride, is_permuted


def as_function(case: Case) -> Case:
    """Return the Case with sizes read from tensors, and with floats that are numbers.

    With dynamic shapes Dynamo adds a placeholder for each size, and passes a float in a tensor, whose `item` the graph
    reads. An unused size is dropped. The size of a tensor input becomes a call of its `size`. Any other size stays an
    input.
    """
    return _with_floats(_without_sizes(case))


def _size_from(case: Case, item: ScalarInput) -> tuple[str, int] | None:
    """Return the tensor input and the dimension whose size is this symbol."""
    for other in case.inputs:
        if isinstance(other, TensorInput):
            for dim, symbol in enumerate(other.meta.symbols):
                if symbol == item.symbol and other.meta.shape[dim] == item.value:
                    return other.name, dim
    return None


def _without_sizes(case: Case) -> Case:
    removed: set[str] = set()
    size_calls: list[Node] = []
    for item in case.inputs:
        if not isinstance(item, ScalarInput) or item.symbol is None:
            continue
        source = _size_from(case, item)
        if not case.graph.users[item.name]:
            removed.add(item.name)
        elif source is not None:
            removed.add(item.name)
            name, dim = source
            value = case.graph.node(item.name).value
            size_calls.append(Node(item.name, "call_method", "size", (Ref(name), dim), value=value))
    nodes = [node for node in case.graph.nodes if node.name not in removed]
    placeholders = [node for node in nodes if node.op == "placeholder"]
    rest = [node for node in nodes if node.op != "placeholder"]
    graph = Graph((*placeholders, *size_calls, *rest), case.graph.attributes, case.graph.modules)
    return replace(case, graph=graph, inputs=tuple(item for item in case.inputs if item.name not in removed))


def _with_floats(case: Case) -> Case:
    floats = floats_in_tensors(case)
    read = {user: name for name in floats for user in case.graph.users[name]}
    if not floats:
        return case

    def number(item: Input) -> Input:
        if item.name not in floats:
            return item
        return ScalarInput(item.name, floats[item.name].value, floats[item.name].symbol)

    def changed(node: Node) -> Node:
        if node.name in floats:
            return replace(node, value=floats[node.name])
        direct = {"args": map_refs(node.args, renamed), "kwargs": map_refs(node.kwargs, renamed)}
        return replace(node, **direct) if not read.keys().isdisjoint(node.refs()) else node

    def renamed(ref: Ref) -> Ref:
        return Ref(read.get(ref.name, ref.name))

    nodes = tuple(changed(node) for node in case.graph.nodes if node.name not in read)
    return replace(case, graph=replace(case.graph, nodes=nodes), inputs=tuple(map(number, case.inputs)))


def attributes_as_inputs(case: Case) -> Case:
    """Turn the attributes of the Case's graph into inputs.

    Those of a graph of Dynamo's become parameters: while inductor freezes (its option `freezing`), Dynamo makes
    attributes of all parameters that a function gets.
    """
    of_dynamo = case.level is Level.DYNAMO
    placeholders: list[Node] = []
    rest: list[Node] = []
    inputs: list[Input] = list(case.inputs)
    for node in case.graph.nodes:
        if node.op == "get_attr" and node.target in case.graph.attributes:
            assert isinstance(node.value, TensorMeta), "Dynamo and AOTAutograd note the layout of each tensor"
            stored = Stored(case.graph.attributes[node.target], contiguous=True)
            shape, stride = node.value.shape, node.value.stride
            stride = stride if is_permuted(shape, stride) else contiguous_stride(shape)
            trained = of_dynamo and node.value.requires_grad
            meta = replace(node.value, requires_grad=trained, stride=stride, offset=0, storage=None)
            inputs.append(TensorInput(node.name, meta, stored, parameter=of_dynamo))
            placeholders.append(replace(node, op="placeholder", target=node.name))
        else:
            (placeholders if node.op == "placeholder" else rest).append(node)
    return replace(case, graph=Graph((*placeholders, *rest), {}, case.graph.modules), inputs=tuple(inputs))
