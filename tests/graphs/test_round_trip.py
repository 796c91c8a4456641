"""A real graph, written down and read back, is the same graph: names, kinds, targets, values, effects."""

import copy
import operator

import pytest
import torch
from real_graphs import GRAPHS, fresh

from minifier.data.case.store import graph_from_text, graph_to_text
from minifier.torch_side.fx.graphs import build_graph, read_graph
from minifier.torch_side.fx.tensors import StoredTensors, TensorFile
from minifier.torch_side.torch_private.inductor import inputs_written_to, module_of_export


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


def test_values_are_written_beside_each_node():
    (captured,) = GRAPHS["views"]()
    graph = read_graph(captured.module, TensorFile())
    values = {node.name: node.value for node in graph.ops}
    assert values["y"].shape == (2, 3) and values["y"].dtype == "float32"
    assert values["row"].storage == values["y"].storage != graph.placeholders[0].value.storage
    assert values["t"].stride == (1, 3) and values["getitem_1"].offset == 1


class Counting(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(2))

    def forward(self, x, *, y):
        self.count.view(-1).add_(1)
        return x.clone().mul_(2) + y + self.count


def test_an_exported_program_has_its_inputs_in_order_and_tells_what_it_writes_to():
    x, y = torch.ones(2), torch.zeros(2)
    gm, inputs = module_of_export(torch.export.export(Counting(), (x,), {"y": y}))
    assert inputs[0] is x and inputs[1] is y and inputs_written_to(gm) == {"count"}
    assert [node.name for node in gm.graph.find_nodes(op="placeholder")] == ["x", "y"]
