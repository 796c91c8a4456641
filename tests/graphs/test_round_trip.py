"""A real graph, written down and read back, is the same graph: names, kinds, targets, values, effects."""

import copy
import operator

import pytest
import torch
from real_graphs import GRAPHS, KINDS, TARGETS, compiled_graphs, fresh, seeded

from minifier.case.store import graph_from_text, graph_to_text
from minifier.fx.build import build_graph, import_targets
from minifier.fx.read import read_graph
from minifier.fx.tensors import StoredTensors, TensorFile


def written_and_read(module, folder):
    """The graph as plain data after a detour through text, and the tensors it holds after one through a file."""
    file = TensorFile()
    text = graph_to_text(read_graph(module, file))
    return graph_from_text(text), StoredTensors(file.write(folder / "tensors.safetensors"))


def held(module):
    """The tensors that the graph reads as attributes, by node."""
    for node in module.graph.nodes:
        if node.op == "get_attr" and isinstance(value := operator.attrgetter(node.target)(module), torch.Tensor):
            yield node.name, value


def outcome(module, inputs):
    """What a call gives, and what it leaves of its inputs."""
    torch.manual_seed(0)
    inputs = fresh(inputs)
    with torch.no_grad():
        return module(*inputs), inputs


@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_read_back_computes_the_same(name, tmp_path):
    for number, captured in enumerate(GRAPHS[name]()):
        (folder := tmp_path / str(number)).mkdir()
        graph, tensors = written_and_read(captured.module, folder)
        built = build_graph(graph, tensors)
        expected, left = outcome(copy.deepcopy(captured.module), captured.inputs)
        result, after = outcome(built, captured.inputs)
        torch.testing.assert_close(result, expected, rtol=0, atol=0, equal_nan=True)
        torch.testing.assert_close(after, left, rtol=0, atol=0)
        assert {name: t.stride() for name, t in held(built)} == {name: t.stride() for name, t in held(captured.module)}


@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_read_back_has_the_same_nodes(name, tmp_path):
    for number, captured in enumerate(GRAPHS[name]()):
        (folder := tmp_path / str(number)).mkdir()
        graph, tensors = written_and_read(captured.module, folder)
        import_targets(graph)
        built = build_graph(graph, tensors)

        def nodes(module):
            return [
                (n.op, n.name, n.target if n.op != "placeholder" else "", str(n.args), str(n.kwargs))
                for n in module.graph.nodes
            ]

        assert nodes(built) == nodes(captured.module)
        again, _ = written_and_read(built, folder)
        assert [(n.name, n.target, n.args, n.kwargs) for n in again.nodes] == [
            (n.name, n.target, n.args, n.kwargs) for n in graph.nodes
        ]


def test_the_table_holds_every_kind_of_node():
    nodes = [node for make in GRAPHS.values() for captured in make() for node in captured.module.graph.nodes]
    assert {node.op for node in nodes} == KINDS
    assert {node.target for node in nodes if node.op == "call_function"} >= TARGETS


def test_symbolic_sizes_come_with_their_values():
    (captured,) = GRAPHS["dynamic sizes"]()
    graph = read_graph(captured.module, TensorFile())
    numbers = {node.name: node.value for node in graph.placeholders if not hasattr(node.value, "shape")}
    assert {value.value for value in numbers.values()} == {4, 3} and all(value.symbol for value in numbers.values())
    (x,) = [node for node in graph.placeholders if hasattr(node.value, "shape")]
    assert x.value.shape == (4, 3) and all(x.value.symbols)


def test_values_are_written_beside_each_node():
    (captured,) = GRAPHS["views"]()
    graph = read_graph(captured.module, TensorFile())
    values = {node.name: node.value for node in graph.ops}
    assert values["y"].shape == (2, 3) and values["y"].dtype == "float32"
    assert values["row"].storage == values["y"].storage != graph.placeholders[0].value.storage
    assert values["t"].stride == (1, 3) and values["getitem_1"].offset == 1


def test_each_node_carries_the_users_line():
    def f(x):
        return torch.sin(x) * 2  # the line

    (captured,) = compiled_graphs(f, seeded(2))
    assert {node.source for node in read_graph(captured.module, TensorFile()).ops} == {
        "return torch.sin(x) * 2  # the line"
    }


def test_the_graph_itself_is_not_touched():
    (captured,) = GRAPHS["in place"]()
    before = captured.module.print_readable(print_output=False)
    read_graph(captured.module, TensorFile())
    assert captured.module.print_readable(print_output=False) == before


def test_building_twice_gives_two_graphs(tmp_path):
    (captured,) = GRAPHS["a module's parameters"]()
    graph, tensors = written_and_read(captured.module, tmp_path)
    one, two = build_graph(graph, tensors), build_graph(graph, tensors)
    one.graph.erase_node(next(iter(reversed(one.graph.nodes))))
    assert len(list(two.graph.nodes)) == len(list(captured.module.graph.nodes))
