"""Which ops belong together, and the Case that has only some of them."""

import pytest
import torch
from case_samples import call, graph, method, output, placeholder, small_case
from real_graphs import GRAPHS, compiled_graphs, seeded

from minifier.case import Drawn, Recorded, Ref, ScalarInput, TensorInput
from minifier.case.in_place import is_in_place
from minifier.case.ops import atoms, kind, parents, with_ops
from minifier.failure import Stage
from minifier.fx.read import read_graph
from minifier.fx.tensors import TensorFile


def graph_of(function, *args, **options):
    (captured,) = compiled_graphs(function, *args, **options)
    return read_graph(captured.module, TensorFile())


def atoms_of(function, *args):
    return atoms(graph_of(function, *args))


def together(function, *args):
    """Atoms of more than one op."""
    return [group for group in atoms_of(function, *args) if len(group) > 1]


X = seeded(4, 6)


def test_plain_ops_are_one_atom_each():
    def f(x):
        return torch.cos(torch.sin(x)) + x

    assert atoms_of(f, X) == (("sin",), ("cos",), ("add",))


def test_an_op_of_several_results_goes_with_its_getitems():
    def f(x):
        values, places = torch.topk(torch.sin(x), 2)
        first, second = x.chunk(2)
        return values.sum() + places.sum(), first * second

    assert together(f, X) == [("topk", "values", "places"), ("chunk", "first", "second")]


def test_an_in_place_op_goes_with_earlier_views_that_are_read_later():
    def f(x):
        y = torch.sin(x)
        row = y[0]
        y.add_(1)
        return row * 2, y

    (group,) = together(f, X)
    assert set(group) == {"y", "row", "add_"}


def test_an_in_place_op_leaves_views_alone_that_nobody_reads_later():
    def f(x):
        y = torch.sin(x)
        total = y[0].sum()
        z = torch.cos(y)
        z.mul_(2)
        return total + z

    assert together(f, X) == [("z", "mul_")]


def test_a_chain_of_in_place_ops_on_one_tensor_is_one_atom():
    assert together(lambda x: torch.relu_(torch.sin(x).mul_(2).add_(1)), X) == []

    def f(x):
        y = torch.zeros_like(x)
        y[0] = x[1]
        y[:, 1] = 3.0
        return y + torch.sin(x)

    ((*group,),) = together(f, X)
    assert set(group) == {"y", "setitem", "setitem_1"}


def test_writing_into_out_goes_with_what_is_written_into():
    def f(x):
        out = torch.empty(4, 6)
        torch.add(x, 1, out=out)
        return out * 2

    ((*group,),) = together(f, X)
    assert set(group) == {"out", "add"}


def test_an_in_place_op_on_an_input_is_an_atom_of_its_own():
    def f(x):
        x.mul_(2)
        return torch.sin(x)

    assert together(f, X.clone()) == []


def test_enter_and_exit_of_a_context_go_together_and_the_ops_inside_do_not():
    def f(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x.t()
        return torch.sin(y)

    assert together(f, X) == [("_enter_autocast", "_exit_autocast")]


def test_switches_of_grad_mode_go_in_pairs():
    def f(x):
        with torch.no_grad():
            y = torch.sin(x)
        z = torch.cos(x)
        with torch.no_grad():
            return y + z

    groups = together(f, X.clone().requires_grad_())
    assert [len(group) for group in groups] == [2, 2]
    assert all(name.startswith("_set_grad_enabled") for group in groups for name in group)


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


def test_kinds_tell_ops_apart_by_target_type_and_arity():
    whole = graph(
        placeholder("x"), call("a", "torch.sin", Ref("x")), call("b", "torch.sin", Ref("a")),
        call("c", "torch.cos", Ref("b")), call("d", "torch.add", Ref("c"), Ref("a")),
        call("e", "torch.add", Ref("d"), 1), output("e"),
    )  # fmt: skip
    kinds = [kind(whole, (name,)) for name in "abcde"]
    assert kinds[0] == kinds[1] and len(set(kinds)) == 4


def test_a_cut_value_comes_by_shape_when_compiling_and_as_recorded_when_running():
    from dataclasses import replace

    case = small_case()
    part = with_ops(case, ["add"])
    number, cut = part.inputs
    assert cut == TensorInput("tanh", case.graph.node("tanh").value, Drawn("zeros")) and number == ScalarInput(
        "n", 5, "s0"
    )
    assert part.backend == case.backend and part.state == case.state and part.failure == case.failure
    running = replace(
        case, failure=replace(case.failure, fingerprint=replace(case.failure.fingerprint, stage=Stage.RUN))
    )
    assert with_ops(running, ["add"]).inputs[1].source == Recorded("tanh")
    assert with_ops(case, ["tanh"]).inputs == case.inputs[:1]
