"""Which ops belong together, and the Case that has only some of them."""

import pytest
import torch
from case_samples import call, method
from real_graphs import GRAPHS, compiled_graphs, seeded
from torch.nn import functional

from minifier.data.case import Ref
from minifier.data.case.graph import is_in_place
from minifier.data.case.ops import atoms, parents, written_storages
from minifier.torch_side.fx.graphs import read_graph
from minifier.torch_side.fx.tensors import TensorFile


def graph_of(function, *args, **options):
    (captured,) = compiled_graphs(function, *args, **options)
    return read_graph(captured.module, TensorFile())


def atoms_of(function, *args):
    return atoms(graph_of(function, *args))


def together(function, *args):
    """Atoms of more than one op."""
    return [group for group in atoms_of(function, *args) if len(group) > 1]


X = seeded(4, 6)


def test_an_op_of_several_results_goes_with_its_getitems():
    def f(x):
        values, places = torch.topk(torch.sin(x), 2)
        first, second = x.chunk(2)
        return values.sum() + places.sum(), first * second

    assert together(f, X) == [("topk", "values", "places"), ("chunk", "first", "second")]


def test_a_chain_of_in_place_ops_on_one_tensor_is_one_atom():
    assert together(lambda x: torch.relu_(torch.sin(x).mul_(2).add_(1)), X) == []

    def f(x):
        y = torch.zeros_like(x)
        y[0] = x[1]
        y[:, 1] = 3.0
        return y + torch.sin(x)

    ((*group,),) = together(f, X)
    assert set(group) == {"y", "setitem", "setitem_1"}


@torch.library.custom_op("minify_test_atoms::copy_into", mutates_args=("target",))
def copy_into(x: torch.Tensor, target: torch.Tensor) -> None:
    target.copy_(x)


def by_position(x):
    changed = torch.sin(x)
    functional.relu(changed, True)
    return changed.exp(), functional.relu(x, False)


def by_its_schema(x):
    changed = torch.zeros_like(x)
    copy_into(x, changed)
    return changed + 1


def statistics(x):
    changed, varied = torch.sin(x[0]), torch.exp(x[0])
    y = functional.batch_norm(x, changed, varied, training=True)
    return y, changed * varied, functional.batch_norm(x, x[1], varied)


@pytest.mark.parametrize("function", [by_position, by_its_schema, statistics])
def test_what_an_op_changes_is_known_where_its_name_does_not_tell_it(function):
    graph = graph_of(function, X)
    (op,) = (node for node in graph.ops if is_in_place(node))
    changed = {name for name in ("changed", "varied") if name in graph.index}
    assert written_storages(graph, op) == {graph.node(name).value.storage for name in changed}
    assert {op.name, *changed} in [set(group) for group in atoms(graph)]


def test_enter_and_exit_of_a_context_go_together_and_the_ops_inside_do_not():
    def f(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x.t()
        return torch.sin(y)

    assert together(f, X) == [("_enter_autocast", "_exit_autocast")]


@pytest.mark.parametrize("name", GRAPHS)
def test_atoms_cover_every_op_once_in_order_and_parents_come_earlier(name):
    for captured in GRAPHS[name]():
        whole = read_graph(captured.module, TensorFile())
        groups = atoms(whole)
        flat = [op for group in groups for op in group]
        assert sorted(flat) == sorted(node.name for node in whole.ops) and len(flat) == len(set(flat))
        assert [whole.index[group[0]] for group in groups] == sorted(whole.index[group[0]] for group in groups)
        for number, above in enumerate(parents(whole, groups)):
            assert all(0 <= parent < number for parent in above)


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (method("a", "add_", Ref("x"), 1), True),
        (method("a", "add", Ref("x"), 1), False),
        (method("a", "__add__", Ref("x"), 1), False),
        (call("a", "operator.iadd", Ref("x"), 1), True),
        (call("a", "operator.setitem", Ref("x"), 0, 1), True),
        (call("a", "operator.and_", Ref("x"), Ref("x")), False),
        (call("a", "operator.or_", Ref("x"), Ref("x")), False),
        (call("a", "torch.relu_", Ref("x")), True),
        (call("a", "torch.nn.functional.relu", Ref("x"), inplace=True), True),
        (call("a", "torch.nn.functional.relu", Ref("x"), inplace=False), False),
        (call("a", "torch.add", Ref("x"), 1, out=Ref("y")), True),
        (call("a", "torch.ops.aten.add_.Tensor", Ref("x"), 1), True),
        (call("a", "torch.ops.aten.add.Tensor", Ref("x"), 1), False),
    ],
)
def test_ops_in_place_are_known_by_name(node, expected):
    assert is_in_place(node) is expected
