"""Which op makes the results of a graph wrong, where others are wrong as well: it is computed from eager's values.

The backend is called in this process."""

import pytest
import torch
from captured import captured, refused_case
from chains import chain
from fake_prober import BackendProber, differs, has, raises, targets, when
from layers import SOAK

from minifier.data.case.ops import with_ops
from minifier.data.failure import Aspect, Stage
from minifier.reduction.check import check
from minifier.reduction.guilty_ops import Guilt, at_guilty_op, guilt_of, guilty_op, said_of_guilt
from minifier.search import Budget, Ending, Result


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
        lab.make_prober = lambda prepared, _: BackendProber(prepared=prepared)
        return lab, check(lab)

    return check_case


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


def found(lab, case, *ops):
    """The guilty op, its guilt and the sentence about it where the search has left all ops of these functions."""
    reduced = with_ops(case, [node.name for node in case.graph.ops if node.short_target in ops])
    guilty = guilty_op(lab, case, Budget(), reduced)
    return guilty, guilt_of(case, guilty, reduced), said_of_guilt(case, guilty, reduced)


def test_two_probes_show_that_the_last_op_of_the_functions_left_is_guilty(checked, distorted):
    lab, case = checked(distorted(behind_many, "gt relu"))
    before = lab.total
    guilty, guilt, _ = found(lab, case, "relu")
    assert guilty == ("relu",) and guilt is Guilt.PROVED and lab.total == before + 2


def test_the_same_op_in_another_place_may_be_guilty_and_is_named_by_its_place(checked, distorted):
    """The repro does not have it, so that it has no name for it."""

    def fn(x):
        y = torch.relu(x.sin()) * 3
        return torch.relu(y.cos())

    lab, case = checked(distorted(fn, "relu"))
    first = next(node.name for node in case.graph.ops if node.short_target == "relu")
    reduced = with_ops(case, [first])
    guilty = guilty_op(lab, case, Budget(), reduced)
    assert guilty != (first,) and guilt_of(case, guilty, reduced) is Guilt.REPEATED
    line = fn.__code__.co_firstlineno + 2
    assert f"relu in test_guilty_ops.py:{line}" in said_of_guilt(case, guilty, reduced)


def test_ops_on_which_no_result_depends_are_not_guilty(checked, distorted):
    lab, case = checked(distorted(behind_many, "gt relu"))
    guilty, guilt, said = found(lab, case, "gt")
    assert guilty == ("relu",) and guilt is Guilt.NONE and "relu" in said


def test_the_search_goes_on_from_the_guilty_op(checked, distorted):
    lab, case = checked(distorted(within, "relu log1p?len(ops)==1"))
    alone = with_ops(case, [node.name for node in case.graph.ops if node.short_target == "log1p"])
    proved = Result(frozenset({0}), Ending.PROVED, 0, 0, ())
    reduced, result, guilty = at_guilty_op(lab, case, Budget(), alone, proved)
    assert targets(reduced) == ["relu"] and result.one_minimal and guilt_of(case, guilty, reduced) is Guilt.PROVED


@pytest.mark.parametrize(("behind", "known"), [(raises(), ()), (differs(aspect=Aspect.DTYPE), ("exp",))])
def test_ops_behind_may_be_wrong_in_other_ways_but_have_to_run(make_lab, behind, known):
    case = chain("cos", "exp", "tanh", "abs", failing=differs())
    lab, _ = make_lab(case, when(has("exp"), differs(), when(has("tanh"), behind)))
    assert guilty_op(lab, case, Budget(), with_ops(case, ["exp"])) == known


def test_no_probe_is_made_beyond_the_budget(checked, distorted):
    lab, case = checked(distorted(within, "relu"))
    spent = Budget(max_probes=lab.total)
    assert guilty_op(lab, case, spent, with_ops(case, ["relu"])) == () and lab.total == spent.max_probes
