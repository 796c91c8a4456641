"""Backends that each refuse one thing: the reduced Case has that one thing, and all else as simple as can be. The graph
is a real one, and the backends are called in this process."""

from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from captured import captured, refused_case
from many_ops import fn

from minifier.case import Drawn, Stored
from minifier.case.store import load
from minifier.emit.footer import difference
from minifier.emit.repro import Template, write_repro


@pytest.fixture(scope="session")
def many_ops(tmp_path_factory):
    """The graph of `fn`, captured once."""
    x, y = torch.randn(6, 20, 48), torch.randn(6, 20, 48)
    i = torch.randint(0, 20, (5, 3), dtype=torch.int32)
    w, b = torch.nn.Parameter(torch.ones(48)), torch.nn.Parameter(torch.zeros(48))
    return captured(fn, (x, y, i, w, b), tmp_path_factory.mktemp("many-ops"))


@dataclass(frozen=True)
class Left:
    """What a reduction leaves: the function's body and the inputs as the repro has them, how many probes showed the
    failure and passed, what is told of its needs, and the rows that were rejected."""

    body: str
    inputs: str
    probes: tuple[int, int]
    needs: tuple[str, ...] = ()
    rejected: tuple[str, ...] = ()


RELU, ONE = "return x.relu()", "x = torch.randn(1)"
FUNCTIONAL = "return torch.nn.functional"
LEFT = {
    "relu": Left(RELU, ONE, (11, 3)),
    "two_elements": Left(RELU, "x = torch.randn(2)", (15, 6), ("a size of 2 or more",), ("sizes: size 2",)),
    "multiple_of_eight": Left(
        RELU, "x = torch.randn(8)", (16, 18), ("a size that is a multiple of 8",), ("sizes: size 8",)
    ),
    "more_than_ten": Left(
        RELU,
        "x = torch.randn(1, 11)",
        (17, 21),
        ("a size of 11 or more", "an input of 2 dimensions"),
        ("sizes: size 11", "dims: first of 2 dimensions", "dims: dimension 0 of to"),
    ),
    "exactly_48": Left(RELU, "x = torch.randn(48)", (14, 29), ("a size of exactly 48",), ("sizes: size 48",)),
    "three_dims": Left(
        RELU,
        "x = torch.randn(1, 1, 1)",
        (12, 5),
        ("an input of 3 dimensions",),
        ("dims: first of 3 dimensions", *(f"dims: dimension {n} of to" for n in range(3))),
    ),
    "view_to_heads": Left(
        "return x.view(1, 1, 3)", "x = torch.randn(3)", (18, 7), ("a size of 3 or more",), ("sizes: size 3",)
    ),
    "matmul": Left("return torch.matmul(x, x)", ONE, (11, 5)),
    "half": Left(RELU, "x = torch.randn(1, dtype=torch.float16)", (13, 7), ("float16",), ("dtypes: float16",)),
    "conversion": Left("return x.to(torch.bfloat16)", ONE, (12, 8), ("bfloat16",), ("dtypes: bfloat16",)),
    "index": Left(
        f"{FUNCTIONAL}.embedding(x, y)", "x = torch.zeros(1, dtype=torch.int64)\ny = torch.randn(1, 1)", (12, 4)
    ),
    "strided": Left(
        f"{FUNCTIONAL}.relu(x)",
        "x = torch.randn(2, 2).t()",
        (16, 16),
        ("an input that is not contiguous", "a size of 2 or more"),
        ("layout: stride of mul_1", "sizes: size 2", "sizes: dimension 0 of mul_1", "sizes: dimension 1 of mul_1"),
    ),
    "two_inputs": Left("return x * y", "x = torch.randn(1)\ny = torch.randn(1)", (13, 7), (), ("merge: input l_y_",)),
    "product": Left("return x * x", ONE, (11, 3)),
    "cube": Left("return x.pow(3)", ONE, (9, 5)),
    "power": Left("return x.pow(3)", ONE, (9, 5)),
    "scale": Left("return torch.clamp(x, 1.0)", ONE, (10, 5)),
    "approximate": Left(
        f'{FUNCTIONAL}.gelu(x, approximate="tanh")', ONE, (12, 8), (), ("arguments: approximate= of gelu",)
    ),
    "gelu": Left(f"{FUNCTIONAL}.gelu(x)", ONE, (10, 4)),
    "softmax": Left(f"{FUNCTIONAL}.softmax(x, dim=-1)", ONE, (8, 7)),
    "layer_norm": Left(f"{FUNCTIONAL}.layer_norm(x, (1,))", ONE, (10, 5)),
    "relu_before_sin": Left(
        "a = x.relu()\n    return a.sin()", ONE, (15, 19), (), ("bypass: op a_3", "bypass: op a_4")
    ),
    "cast_and_back": Left("return x.sin()", ONE, (14, 19)),
    "requires_grad": Left(
        RELU, "x = torch.randn(1, requires_grad=True)", (13, 8), (), ("grad: requires_grad and grad mode",)
    ),
}


def shown(case):
    """(the function's body, the inputs, the comment) of the Case's repro."""
    text = write_repro(case, Template.COMPILE_FUNCTION).text
    function, _, rest = text.partition("):\n    ")[2].partition("\n\n\n")
    return function, rest.partition("\ntorch.compile(")[0], rest


@pytest.mark.parametrize("what", LEFT)
def test_what_is_left(reduce, many_ops, what):
    left = LEFT[what]
    done = reduce(refused_case(many_ops, what), None)
    body, inputs, rest = shown(done.case)
    assert (body, inputs) == (left.body, left.inputs)
    assert (done.case.needs, done.summary.needs) == (left.needs, left.rejected)
    assert (f"# It takes {' and '.join(left.needs)}.\n" in rest) is bool(left.needs), rest
    assert (done.summary.probes["SAME"], done.summary.probes["PASS"]) == left.probes
    assert done.summary.one_minimal and not done.summary.stopped_because and not done.summary.notes
    assert set(done.summary.passes.values()) == {"fixpoint"}
    # A shape that a view cannot make is no other failure of the backend; nor is anything else here.
    assert done.summary.others == ()


@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize("what", ["more_than_ten", "two_inputs", "layer_norm", "strided"])
def test_the_answer_is_the_same_for_any_number_of_workers(reduce, many_ops, what, workers):
    case = refused_case(many_ops, what)
    one, several = reduce(case, None), reduce(case, None, workers)
    assert several.case == one.case and several.nearest == one.nearest
    for each in ("needs", "passes", "others", "notes", "one_minimal", "stopped_because", "ops_after"):
        assert getattr(several.summary, each) == getattr(one.summary, each)
    assert max(len(cases) for cases in several.prober.rounds) == workers
    assert len(several.prober.rounds) < len(one.prober.rounds)


# What is refused, and what the nearest program that is not would have otherwise.
NEAREST = {
    "two_elements": ["-x = torch.randn(2)", "+x = torch.randn(1)"],
    "more_than_ten": ["-x = torch.randn(1, 11)", "+x = torch.randn(1, 10)"],
    "relu_before_sin": ["-    a = x.relu()", "-    return a.sin()", "+    return x.relu()"],
    "half": ["-x = torch.randn(1, dtype=torch.float16)", "+x = torch.randn(1)"],
    "strided": ["-x = torch.randn(2, 2).t()", "+x = torch.randn(1, 1)"],
}


@pytest.mark.parametrize("what", NEAREST)
def test_the_nearest_that_passes_is_one_change_away(reduce, many_ops, what):
    done = reduce(refused_case(many_ops, what), None)
    texts = [write_repro(each, Template.COMPILE_FUNCTION).text for each in (done.case, done.nearest)]
    told = difference(*texts).splitlines()
    assert [line for line in told[2:] if line[0] in "+-"] == NEAREST[what]


def test_an_op_that_is_refused_whatever_it_has_has_no_nearest(reduce, many_ops):
    assert reduce(refused_case(many_ops, "relu"), None).nearest is None


def test_a_nearest_of_an_earlier_run_goes(reduce, many_ops, folder):
    out = folder / "out"
    assert reduce(refused_case(many_ops, "half"), None, out=out).nearest is not None
    for journal in out.glob("*.jsonl"):
        journal.unlink()
    assert reduce(refused_case(many_ops, "relu"), None, out=out).nearest is None


def test_passes_that_are_left_out(reduce, many_ops):
    done = reduce(refused_case(many_ops, "gelu"), None, skipped=("arguments", "dims"))
    body, inputs, _ = shown(done.case)
    assert 'approximate="tanh"' in body and inputs == "x = torch.randn(1, 1, 1)"
    assert {name for name, end in done.summary.passes.items() if end == "skipped"} == {"arguments", "dims"}


def test_the_only_passes(reduce, many_ops):
    done = reduce(refused_case(many_ops, "gelu"), None, passes=("data",))
    assert shown(done.case)[1] == "x = torch.randn(5, 3, 48)"
    assert [name for name, end in done.summary.passes.items() if end != "skipped"] == ["data"]


def test_no_passes_at_all_leave_the_ops_alone(reduce, many_ops):
    done = reduce(refused_case(many_ops, "gelu"), None, passes=())
    assert [node.short_target for node in done.case.graph.ops] == ["gelu"]
    assert set(done.summary.passes.values()) == {"skipped"}


def test_passes_that_the_budget_does_not_reach(reduce, many_ops):
    case = refused_case(many_ops, "exactly_48")
    whole = reduce(case, None).summary.probes["total"]
    done = reduce(case, None, max_probes=whole - 4)
    assert done.summary.stopped_because == "the probe budget was used up" and done.summary.one_minimal
    assert set(done.summary.passes.values()) == {"unfinished"} and done.summary.probes["total"] <= whole - 4
    assert shown(done.case)[0] == RELU and done.nearest is None and done.summary.needs == ()


def test_the_users_values_go_after_an_interrupt_of_the_passes(reduce, many_ops):
    case = refused_case(many_ops, "index")
    ops_only = reduce(case, None, passes=())
    assert any(isinstance(item.source, Stored) for item in ops_only.case.inputs)
    done = reduce(case, None, interrupt_at=len(ops_only.prober.asked))
    assert done.summary.stopped_because.startswith("interrupted after the ops were proved")
    assert all(isinstance(item.source, Drawn) for item in done.case.inputs)


def test_the_minimal_case_reduces_to_itself(reduce, many_ops):
    first = reduce(refused_case(many_ops, "more_than_ten"), None)
    again = reduce(load(first.folder / "minimal"), None)
    assert again.case.graph == first.case.graph and again.case.inputs == first.case.inputs


@dataclass(frozen=True)
class Odd:
    """A failure that looks as if it took more, or less, than it does."""

    what: str
    function: object
    args: tuple
    body: str
    inputs: str
    needs: tuple[str, ...] = ()


NAN = torch.tensor([[1.0, float("nan")], [2.0, 3.0]])
ODD = {
    "a size that is a number in an argument as well": Odd(
        "square", lambda x, y: x.pow(2).sin() + y, (torch.randn(2), torch.ones(2)), "return x.pow(2)", ONE
    ),
    "a value that is not a number": Odd(
        "nan", lambda x, y: x.relu() + y, (NAN, torch.ones(2)), RELU, "tensors", ("a size of 2", "these values")
    ),
    "large values": Odd(
        "large",
        lambda x, y: x.relu() + y,
        (torch.linspace(0, 1000, 600).view(20, 30), torch.ones(30)),
        RELU,
        "x = torch.rand(1) * 1000.0",
        ("values in a range",),
    ),
    "a warning that quotes a size": Odd(
        "mse",
        lambda x, y: F.mse_loss(x, y),
        (torch.randn(64, 1), torch.randn(64)),
        f"{FUNCTIONAL}.mse_loss(x, x)",
        ONE,
    ),
    "a size that has to be met": Odd(
        "four",
        lambda x, y: x.add(torch.ones(4)) * y,
        (torch.randn(4), torch.ones(4)),
        "return x.add(x)",
        "x = torch.randn(4)",
        ("a size of exactly 4",),
    ),
}


@pytest.mark.filterwarnings("ignore:Using a target size")
@pytest.mark.parametrize("about", ODD)
def test_what_is_left_of_odd_ones(reduce, folder, about):
    odd = ODD[about]
    graph = captured(odd.function, odd.args, folder)
    done = reduce(refused_case(graph, odd.what), None)
    body, inputs, _ = shown(done.case)
    assert body == odd.body and odd.inputs in inputs, (body, inputs)
    assert done.case.needs == odd.needs and done.summary.one_minimal
