"""Backends that each refuse one thing: the reduced Case has that one thing, and all else as simple as can be. The graph
is a real one, and the backends are called in this process."""

import pytest
import torch
from captured import captured, refused_case
from many_ops import fn

from minifier.data.case import Drawn, Stored
from minifier.data.case.store import load
from minifier.repro.emit.forms import Template
from minifier.repro.emit.repro import write_repro


@pytest.fixture(scope="session")
def many_ops(tmp_path_factory):
    """The graph of `fn`, captured once."""
    x, y = torch.randn(6, 20, 48), torch.randn(6, 20, 48)
    i = torch.randint(0, 20, (5, 3), dtype=torch.int32)
    w, b = torch.nn.Parameter(torch.ones(48)), torch.nn.Parameter(torch.zeros(48))
    return captured(fn, (x, y, i, w, b), tmp_path_factory.mktemp("many-ops"))


RELU, ONE = "return x.relu()", "x = torch.randn(1)"
FUNCTIONAL = "return torch.nn.functional"
# What is refused; the function's body and the inputs as the repro has them, and what it says that it takes.
LEFT = {
    "relu": (RELU, ONE, ()),
    "two_elements": (RELU, "x = torch.randn(2)", ("a size of 2 or more",)),
    "multiple_of_eight": (RELU, "x = torch.randn(8)", ("a size that is a multiple of 8",)),
    "more_than_ten": (RELU, "x = torch.randn(1, 11)", ("a size of 11 or more in dimension 1 of `to`",)),
    "exactly_48": (RELU, "x = torch.randn(48)", ("a size of exactly 48",)),
    "three_dims": (RELU, "x = torch.randn(1, 1, 1)", ()),
    "view_to_heads": ("return x.view(1, 1, 3)", "x = torch.randn(3)", ("a size of 3 or more",)),
    "matmul": ("return torch.matmul(x, x)", ONE, ()),
    "half": (RELU, "x = torch.randn(1, dtype=torch.float16)", ("float16",)),
    "conversion": ("return x.to(torch.bfloat16)", ONE, ("bfloat16",)),
    "index": (f"{FUNCTIONAL}.embedding(x, y)", "x = torch.zeros(1, dtype=torch.int64)\ny = torch.randn(1, 1)", ()),
    "strided": (f"{FUNCTIONAL}.relu(x)", "x = torch.randn(2, 2).t()", ("an input that is not contiguous",)),
    "two_inputs": ("return x * y", "x = torch.randn(1)\ny = torch.randn(1)", ()),
    "scale": ("return torch.clamp(x, 1.0)", ONE, ()),
    "approximate": (f'{FUNCTIONAL}.gelu(x, approximate="tanh")', ONE, ()),
    "layer_norm": (f"{FUNCTIONAL}.layer_norm(x, (1,))", ONE, ()),
    "relu_before_sin": ("a = x.relu()\n    return a.sin()", ONE, ()),
    "cast_and_back": ("return x.sin()", ONE, ()),
    "requires_grad": (RELU, "x = torch.randn(1, requires_grad=True)", ()),
}


def shown(case):
    """(the function's body, the inputs) of the Case's repro."""
    text = write_repro(case, Template.COMPILE_FUNCTION).text
    function, _, rest = text.partition("):\n    ")[2].partition("\n\n\n")
    return function, rest.partition("\ntorch.compile(")[0]


@pytest.mark.parametrize("what", LEFT)
def test_what_is_left(reduce, many_ops, what):
    done = reduce(refused_case(many_ops, what), None)
    assert (*shown(done.case), done.case.needs) == LEFT[what]
    assert done.summary.one_minimal and set(done.summary.passes.values()) == {"fixpoint"}
    assert done.summary.probes["total"] <= 50
    # A shape that a view cannot make is no other failure of the backend; nor is anything else here.
    assert done.summary.others == ()


@pytest.mark.parametrize(
    ("given", "inputs"),
    [
        ({"skipped": ("arguments", "dims")}, "x = torch.randn(1, 1, 1)"),
        ({"passes": ("data",)}, "x = torch.randn(5, 3, 48)"),
    ],
)
def test_passes_that_are_left_out_change_nothing(reduce, many_ops, given, inputs):
    done = reduce(refused_case(many_ops, "gelu"), None, **given)
    assert 'approximate="tanh"' in shown(done.case)[0] and shown(done.case)[1] == inputs
    skipped = {name for name, end in done.summary.passes.items() if end == "skipped"}
    assert skipped == set(given.get("skipped", done.summary.passes.keys() - {*given.get("passes", ())}))


def test_rows_that_make_the_same_change_are_one_need(reduce, many_ops):
    """Without its first, second or third dimension, each of size 1, the only input is the same."""
    (change,) = reduce(refused_case(many_ops, "three_dims"), None).summary.needs
    assert "3 dimensions" in change


def test_a_budget_or_an_interrupt_in_the_passes_keeps_the_proved_ops(reduce, many_ops):
    case = refused_case(many_ops, "index")
    ops_only = reduce(case, None, passes=())
    assert any(isinstance(item.source, Stored) for item in ops_only.case.inputs)
    cut = reduce(case, None, max_probes=ops_only.summary.probes["total"] + 1)
    interrupted = reduce(case, None, interrupt_at=len(ops_only.prober.asked))
    for done in (cut, interrupted):
        assert done.summary.stopped_because and done.summary.one_minimal and done.summary.ops_after == 1
        assert all(isinstance(item.source, Drawn) for item in done.case.inputs), "the user's values are gone"
    assert set(cut.summary.passes.values()) == {"unfinished"} and cut.nearest is None


def test_the_minimal_case_reduces_to_itself(reduce, many_ops):
    first = reduce(refused_case(many_ops, "more_than_ten"), None)
    again = reduce(load(first.folder / "minimal"), None)
    assert again.case.graph == first.case.graph and again.case.inputs == first.case.inputs


# A failure that looks as if it took more than it does: what is refused, the input, its line, words of what it takes.
ODD = {
    "no number": ("nan", torch.tensor([[1.0, float("nan")], [2.0, 3.0]]), "tensors", "these values"),
    "large values": ("large", torch.linspace(0, 1000, 600).view(20, 30), "torch.rand(1) * 1000.0", "values in a range"),
    "shared elements": ("overlapping", torch.ones(30).expand(20, 30), "as_strided((2,), (0,))", "its elements overlap"),
}


@pytest.mark.parametrize("about", ODD)
def test_what_is_left_of_odd_ones(reduce, folder, about):
    what, value, line, words = ODD[about]
    graph = captured(lambda x, y: x.relu() + y, (value, torch.ones(value.shape[1])), folder)
    done = reduce(refused_case(graph, what), None)
    body, inputs = shown(done.case)
    (need,) = done.case.needs
    assert body == RELU and line in inputs and words in need
    assert done.summary.one_minimal
