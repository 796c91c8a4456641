"""Which ops make the results of a graph wrong, where others are wrong as well: eager's values are put in their places.

The backend is called in this process."""

from itertools import combinations

import pytest
import torch
from captured import captured, refused_case
from fake_prober import BackendProber, targets
from layers import SOAK

from minifier.data.case.ops import atoms, with_ops
from minifier.data.failure import Stage
from minifier.reduction.check import check
from minifier.reduction.guilty_ops import Guilt, at_guilty_ops, charge, with_eagers_values
from minifier.search import Budget, Ending, Result
from minifier.torch_side.fx.graphs import build_graph
from minifier.torch_side.fx.inputs import make_inputs


def harmless(x):
    """A bool on which nothing depends."""
    return torch.where(torch.log1p(x) > 0, x * 2, x * 2) + 1


def within(x):
    return torch.relu(torch.sin(harmless(x)) * 3) * 2


def of_a_view(x):
    y = torch.sin(harmless(x)) * 3
    torch.relu_(y[0])
    return y * 2 + y[1].exp()


def into_a_clone(x):
    """Two writes into one tensor, which belong together with it."""
    y = torch.sin(harmless(x)).clone()
    y[:, 1:3] = 0.0
    y[0] = 1.0
    return torch.relu(y * 3) + y


def of_statistics(x):
    mean, var = torch.sin(x[0]), torch.exp(x[0])
    y = torch.nn.functional.batch_norm(x, mean, var, training=True)
    return torch.relu(y) * 2 + mean * var


def of_an_input(x):
    z = harmless(x)
    x[0] = torch.relu(z[1])
    return x.exp() + z


def behind_many(x):
    y = x * 2
    for k in range(9):
        y = torch.where(torch.log1p(x + k) > 0.1, y, y) + 1
    return (torch.relu(torch.sin(y) + 0.5) * 3).exp()


@pytest.fixture
def distorted(folder):
    """`distorted(function, what)`: the Case of the function's graph and of a backend that is wrong at ops."""

    def case(function, what):
        graph = captured(function, (torch.rand(4, 4),), folder)
        return refused_case(graph, what, function="distort", stage=Stage.COMPARE, grad=False)

    return case


@pytest.fixture
def checked(make_lab):
    """`checked(case)`: a lab that calls the Case's own backend, and the Case after the check phase."""

    def check_case(case):
        lab, _ = make_lab(case, None)
        lab.prober = BackendProber(prepared=lab.prepared)
        return lab, check(lab)

    return check_case


def charged(lab, case, *ops):
    """What is known of the guilt of all ops of these targets."""
    kept = [node.name for node in case.graph.ops if node.short_target in ops]
    return charge(lab, case, with_ops(case, kept))


@pytest.mark.parametrize(
    ("function", "guilty"),
    [
        (of_a_view, "relu_"),
        (behind_many, "relu"),
        (into_a_clone, "relu"),
        pytest.param(of_an_input, "setitem", marks=SOAK),
    ],
)
def test_the_op_is_left_that_makes_the_result_wrong(reduce, distorted, function, guilty):
    done = reduce(distorted(function, f"gt {guilty}"), None)
    assert targets(done.case) == [guilty]
    assert done.summary.guilt == Guilt.PROVED.value and done.summary.cause


def test_other_guilty_ops_are_named_by_their_function_and_place(checked, distorted):
    """The repro does not have them, so that it has no names for them."""

    def fn(x):
        low = torch.relu(x.sin())
        return torch.exp(low * 2)

    lab, case = checked(distorted(fn, "relu exp"))
    assert "low" in case.graph.index
    line = fn.__code__.co_firstlineno + 1
    charge = charged(lab, case, "exp")
    assert charge.others == (f"relu in test_guilty_ops.py:{line}",)


def test_all_guilty_ops_are_known_where_those_left_are_not_all(checked, distorted):
    case = distorted(lambda x: torch.relu(x.sin()) + torch.tanh(harmless(x)), "gt relu tanh")
    lab, case = checked(case)
    assert charged(lab, case, "relu", "tanh").guilt is Guilt.PROVED and not lab.causes.known
    of_one = charged(lab, case, "relu")
    assert of_one.guilt is Guilt.SHARED and of_one.others[0].startswith("tanh in ")
    assert list(lab.causes.guilty) == [("relu",), ("tanh",)]
    assert [case.graph.node(name).short_target for name in lab.causes.innocent] == ["gt"]
    assert charged(lab, case, "gt").guilt is Guilt.NONE


def test_the_search_goes_on_behind_ops_that_are_not_guilty(checked, distorted):
    case = distorted(within, "relu log1p?len(ops)==1")
    lab, case = checked(case)
    alone = with_ops(case, [node.name for node in case.graph.ops if node.short_target == "log1p"])
    proved = Result(frozenset({0}), Ending.PROVED, 0, 0, ())
    reduced, result, found = at_guilty_ops(lab, case, Budget(), alone, proved)
    assert targets(reduced) == ["relu"] and result.one_minimal and found.guilt is Guilt.PROVED


def test_an_op_called_innocent_is_left_alone_if_it_fails_alone(checked, distorted):
    """As in `x + linear(x, 0)`, where the reader of an innocent op seemed to be needed as well."""

    def fn(x):
        return torch.relu(torch.sin(torch.exp(torch.log1p(x))))

    lab, case = checked(distorted(fn, "log1p"))
    log1p, exp, *_ = (node.name for node in case.graph.ops)
    lab.prepared.innocent = frozenset({log1p})
    proved = Result(frozenset({0, 1}), Ending.PROVED, 0, 0, ())
    reduced, result, _ = at_guilty_ops(lab, case, Budget(), with_ops(case, [log1p, exp]), proved)
    assert targets(reduced) == ["log1p"] and result.one_minimal


def test_guilty_ops_stay_where_an_innocent_op_differs_alone_and_are_not_called_minimal(reduce, distorted):
    def fn(x):
        return torch.relu(torch.sin(torch.where(x < 2, harmless(x), x)) * 3) * 2

    done = reduce(distorted(fn, "gt relu?{*ops}&{'gt','lt'}"), None)
    assert targets(done.case) == ["gt", "relu"] and done.summary.guilt == Guilt.PROVED.value
    assert not done.summary.one_minimal and done.summary.innocent == ("gt",) and not done.summary.stopped_because
    assert "gt" in done.summary.exceptions


@pytest.mark.parametrize("function", [of_a_view, of_an_input, of_statistics, into_a_clone, behind_many])
def test_with_eagers_values_the_graph_computes_what_it_did(checked, distorted, function):
    case = distorted(function, "gt relu relu_ setitem")
    lab, case = checked(case)

    def results(of):
        module = build_graph(of.graph, lab.prepared.tensors)
        outputs = module(*make_inputs(of.inputs, lab.prepared.tensors, lab.prepared.recorded))
        return dict(zip(of.graph.output.refs(), outputs, strict=True))

    expected, groups = results(case), atoms(case.graph)
    tried = [*((group,) for group in groups), *combinations(groups, 2)] if len(groups) < 15 else [groups[3:9]]
    for chosen in tried:
        candidate = with_eagers_values(case, [name for group in chosen for name in group])
        assert candidate is not None
        values = results(candidate)
        for name in expected.keys() & values.keys():
            assert torch.equal(values[name], expected[name]), (chosen, name)
