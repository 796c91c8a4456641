"""Reading and copying FX graphs."""

import pytest
import torch
from minifier_backends.graphs import descendants, fresh_copy, insert_after, op_names, ops_named
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx


class Nested(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tanh = torch.nn.Tanh()
        self.weight = torch.nn.Parameter(torch.ones(2))

    def forward(self, x):
        return self.tanh(x) + torch.ops.aten.cos.default(self.weight)


@pytest.fixture
def graph_module():
    """sin(tanh(x) + cos(weight)), with the sin in a graph module of its own."""
    traced = fx.symbolic_trace(Nested())
    body = fx.symbolic_trace(lambda x: x.sin())
    traced.body = fx.GraphModule(body, body.graph, "Body")
    (returned,) = traced.graph.find_nodes(op="output")
    (value,) = returned.args
    with traced.graph.inserting_before(returned):
        returned.replace_input_with(value, traced.graph.call_module("body", (value,)))
    traced.recompile()
    return traced


def test_an_op_has_one_name_however_it_is_called(graph_module):
    assert op_names(graph_module) == {"tanh", "add", "cos", "sin", "body"}
    assert op_names(make_fx(lambda x: x.softmax(-1).tanh_())(torch.ones(2))) >= {"_softmax", "tanh_"}


def test_descendants_are_all_that_is_computed_from_a_node(graph_module):
    (node,) = ops_named(graph_module, "tanh")
    assert [reached.name for reached in graph_module.graph.nodes if reached in descendants(node)] == [
        "tanh",
        "add",
        "body",
        "output",
    ]


def test_a_copy_is_edited_without_the_original_and_shares_its_tensors(graph_module):
    copied = fresh_copy(graph_module)
    for node in ops_named(copied, "tanh", "sin"):
        insert_after(node, torch.neg)
    for module in (copied, copied.body):
        module.recompile()
    x = torch.ones(2)
    assert torch.equal(graph_module(x), torch.sin(torch.tanh(x) + torch.cos(x)))
    assert torch.equal(copied(x), -torch.sin(-torch.tanh(x) + torch.cos(x)))
    assert copied.weight is graph_module.weight


def test_a_copy_keeps_what_dynamo_notes_on_placeholders():
    pairs = []

    def backend(gm, example_inputs):
        copied = fresh_copy(gm)
        placeholders = (graph.graph.find_nodes(op="placeholder") for graph in (gm, copied))
        pairs.extend((old._dynamo_source, new._dynamo_source) for old, new in zip(*placeholders, strict=True))
        assert copied._param_name_to_source is gm._param_name_to_source
        return copied.forward

    torch.compile(torch.add, backend=backend)(torch.ones(2), torch.ones(2))
    assert len(pairs) == 2
    assert all(old is new for old, new in pairs)
