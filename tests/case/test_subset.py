"""Every set of ops is a valid graph that computes what the whole one computes there."""

from dataclasses import replace

import torch
from case_samples import call, graph, meta, output, placeholder
from hypothesis import given, settings
from hypothesis import strategies as st

from minifier.data.case import Graph, Node, Ref, Scalar
from minifier.data.case.graph import Module, subset
from minifier.data.case.values import Opaque
from minifier.torch_side.fx.graphs import build_graph
from minifier.torch_side.fx.tensors import StoredTensors

NO_TENSORS = StoredTensors(None)
TARGETS = ["torch.sin", "torch.nn.functional.relu", "operator.add", "torch.mul", "torch.maximum", "torch.stack"]


@st.composite
def graphs(draw):
    """Up to three inputs and ten ops on 2 x 3 tensors, each reading anything before it; any live-outs."""
    nodes = [placeholder(f"x{i}") for i in range(draw(st.integers(1, 3)))]
    for i in range(draw(st.integers(1, 10))):
        earlier = st.sampled_from([n for n in nodes if n.value == meta(2, 3)]).map(lambda node: Ref(node.name))
        target = draw(st.sampled_from(TARGETS))
        if target == "torch.stack":
            pair = draw(st.lists(earlier, min_size=2, max_size=2))
            nodes.append(call(f"stack{i}", target, pair, value=meta(2, 2, 3)))
            nodes.append(call(f"v{i}", "torch.sum", Ref(f"stack{i}"), dim=0))
        else:
            nodes.append(call(f"v{i}", target, *(draw(earlier) for _ in range(1 if target in TARGETS[:2] else 2))))
    names = [n.name for n in nodes if n.is_op]
    returned = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
    return graph(*nodes, output(*returned))


class Values(torch.fx.Interpreter):
    """Runs a graph and keeps what every node evaluates to."""

    def __init__(self, module):
        super().__init__(module, garbage_collect_values=False)

    def of(self, *inputs):
        result = self.run(*inputs)
        return result, {node.name: value for node, value in self.env.items()}


def values_of(whole, inputs):
    return Values(build_graph(whole, NO_TENSORS)).of(*inputs)


def inputs_of(whole):
    torch.manual_seed(0)
    return [torch.randn(2, 3) for _ in whole.placeholders]


@settings(max_examples=60)
@given(graphs(), st.data())
def test_a_subset_is_closed_and_computes_the_same(whole, data):
    inputs = inputs_of(whole)
    _, known = values_of(whole, inputs)
    kept = data.draw(st.sets(st.sampled_from([node.name for node in whole.ops])))
    part = subset(whole, kept)

    defined = set()
    for node in part.nodes:
        assert set(node.refs()) <= defined, "reads what is not there"
        defined.add(node.name)
    assert {node.name for node in part.ops} == kept

    read = {name for op in kept for name in whole.node(op).refs()}
    assert {node.name for node in part.placeholders} == read - kept, "inputs are what is read and not computed"
    if kept:
        needed = {n for n in kept if not whole.users[n] or set(whole.users[n]) - kept}
        (returned,) = part.output.args
        assert {ref.name for ref in returned} == needed, "outputs are what is used outside, or not at all"
        result, _ = values_of(part, [known[node.name] for node in part.placeholders])
        for ref, value in zip(returned, result, strict=True):
            assert torch.equal(value, known[ref.name])


@settings(max_examples=30)
@given(graphs(), st.data())
def test_a_subset_of_a_subset_is_that_subset(whole, data):
    larger = data.draw(st.sets(st.sampled_from([node.name for node in whole.ops]), min_size=1))
    smaller = data.draw(st.sets(st.sampled_from(sorted(larger))))
    twice, once = subset(subset(whole, larger), smaller), subset(whole, smaller)
    assert [n for n in twice.nodes if n.is_op] == [n for n in once.nodes if n.is_op]
    assert {n.name for n in twice.placeholders} == {n.name for n in once.placeholders}


def test_what_is_not_a_tensor_is_no_output_unless_it_is_all_there_is():
    sizes = Node("size", "call_method", "size", (Ref("x"), 0), {}, Scalar(2))
    whole = graph(
        placeholder("x"),
        sizes,
        call("v", "torch.sin", Ref("x")),
        call("a", "torch.add", Ref("v"), Ref("size")),
        output("a"),
    )
    assert subset(whole, {"size", "v"}).output.args == ((Ref("v"),),)
    assert subset(whole, {"size"}).output.args == ((Ref("size"),),)


def test_a_cut_number_comes_in_with_its_value():
    sizes = Node("size", "call_method", "size", (Ref("x"), 0), {}, Scalar(2, "s0"))
    whole = graph(placeholder("x"), sizes, call("a", "torch.add", Ref("x"), Ref("size")), output("a"))
    part = subset(whole, {"a"})
    assert [(n.name, n.value) for n in part.placeholders] == [("x", meta(2, 3)), ("size", Scalar(2, "s0"))]


def test_attributes_and_modules_stay_only_where_they_are_used():

    nodes = (
        placeholder("x"),
        Node("w", "get_attr", "w", value=meta(3)),
        Node("lin", "call_module", "blocks.0", (Ref("x"),), {}, meta(2, 3)),
        call("a", "torch.add", Ref("lin"), Ref("w")),
        output("a"),
    )
    whole = Graph(nodes, {"w": "w"}, {"blocks.0": Module("torch.nn.Linear")})
    assert subset(whole, {"a"}).attributes == {"w": "w"} and subset(whole, {"a"}).modules == {}
    assert subset(whole, {"lin"}).attributes == {} and set(subset(whole, {"lin"}).modules) == {"blocks.0"}


def test_an_input_is_not_named_after_the_op_that_it_was_the_result_of():
    size = Node("s0", "placeholder", "s0", value=Scalar(2, "s0"))
    whole = Graph(
        (
            size,
            Node("l_x_", "placeholder", "L_x_", value=meta(2)),
            Node("tanh", "call_function", "torch.tanh", (Ref("l_x_"),), value=meta(2)),
            Node("exp", "call_function", "torch.exp", (Ref("tanh"),), value=meta(2)),
            Node("output", "output", "output", ((Ref("exp"),),)),
        )
    )
    assert whole.input_names == {}
    assert subset(whole, ["exp"]).input_names == {"tanh": "l_v0_"}
    assert "l_v0_" in subset(whole, ["exp"]).free_names


def test_an_in_place_op_without_readers_stays_without_readers():
    changed = replace(meta(2, 3), storage=7)
    base = call("v0", "torch.sin", Ref("x"), value=changed)
    clamped = call("c", "torch.clamp_", Ref("v0"), value=changed)
    whole = graph(placeholder("x"), base, clamped, call("v1", "torch.relu", Ref("v0")), output("v1"))
    assert subset(whole, ["v0", "c", "v1"]).output.args == whole.output.args
    assert subset(whole, ["v0", "c"]).output.args == ((Ref("v0"),),)
    alone = subset(whole, ["c"])  # the cut base shows what the op did
    assert [node.name for node in alone.placeholders] == ["v0"] and alone.output.args == ((Ref("v0"),),)


def test_what_a_transform_wraps_is_no_result():
    """As Dynamo writes `torch.func.vmap(f)(x).cos()`: the value leaves the transform by `_remove_batch_dim`."""
    func = "torch._functorch.predispatch."
    whole = graph(
        placeholder("x"),
        call("begin", f"{func}_vmap_increment_nesting", 2, "error", value=Scalar(1)),
        call("row", f"{func}_add_batch_dim", Ref("x"), 0, 1),
        call("sin", "torch.sin", Ref("row")),
        call("unread", "torch.tanh", Ref("row")),
        call("exp", "torch.exp", Ref("sin")),
        call("batch", f"{func}_remove_batch_dim", Ref("exp"), 1, 2, 0),
        call("end", f"{func}_vmap_decrement_nesting", value=Scalar(1)),
        call("cos", "torch.cos", Ref("batch")),
        output("cos"),
    )
    names = [node.name for node in whole.ops]

    def results(*removed):
        return list(subset(whole, [name for name in names if name not in removed]).output.refs())

    assert results() == ["cos"] and results("cos") == ["batch"]
    assert results("exp") == ["cos"], "neither is the value that the removed op read"
    assert results("begin", "end", "batch") == ["unread", "exp", "cos"], "without the transform nothing is wrapped"


def test_an_op_may_be_called_output():
    """Dynamo names ops by the program's variables, and the output node by what is left: here output_1."""
    nodes = placeholder("x"), call("output", "torch.sin", Ref("x")), call("y", "torch.relu", Ref("output"))
    whole = graph(*nodes, replace(output("y"), name="output_1"))
    assert subset(whole, ["output", "y"]) == whole
    first = subset(whole, ["output"])
    assert first.output.name == "output_1" and list(first.output.refs()) == ["output"]


def test_an_assignment_alone_returns_what_it_changes():
    """As a graph's node it is the tensor, in Python it is None."""
    item = call("setitem", "operator.setitem", Ref("x"), 0, 2, value=Opaque("nothing"))
    whole = graph(placeholder("x"), item, call("y", "torch.relu", Ref("x")), output("y"))
    assert list(subset(whole, ["setitem"]).output.refs()) == ["x"]
