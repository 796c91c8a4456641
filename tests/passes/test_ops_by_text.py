"""Which ops belong together, and what comes in at a cut: small graphs written down."""

from dataclasses import replace

import pytest
from case_text import case_of, graph_of

from minifier.data.case import Drawn, Recorded, ScalarInput, State, Symbolic, TensorInput
from minifier.data.case.ops import atoms, with_ops
from minifier.data.failure import Stage


def groups(text):
    """The atoms of more than one op."""
    return [group for group in atoms(graph_of(text)) if len(group) > 1]


@pytest.mark.parametrize("transform", ["vmap", "grad", "jvp"])
def test_a_transform_begins_and_ends_in_pairs_from_the_inside_out(transform):
    text = f"""
        x: float32[2]
        a: 1 = torch._C._functorch._{transform}_increment_nesting(2)
        b: 2 = torch._C._functorch._{transform}_increment_nesting(3)
        y = torch.sin(x)
        c: 3 = torch._C._functorch._{transform}_decrement_nesting()
        d: 4 = torch._C._functorch._{transform}_decrement_nesting()
        return y,
    """
    assert groups(text) == [("a", "d"), ("b", "c")]
    assert groups(text.replace(f"_{transform}_increment_nesting(2)", "other()")) == [("b", "c")]


CUT = """
    x: float32[2]
    a: float32[3](requires_grad=True) = torch.sin(x)
    n: 7 = torch.size(a)
    s: (float32[2], 5) = torch.f(x)
    y = torch.g(x, a, n, s)
    return y,
"""


@pytest.mark.parametrize(("stage", "source"), [(Stage.COMPILE, Drawn("zeros")), (Stage.RUN, Recorded("a"))])
@pytest.mark.parametrize("inference", [False, True])
def test_what_comes_in_at_a_cut(stage, source, inference):
    case = case_of(CUT, state=State(inference=inference))
    case = replace(case, failure=replace(case.failure, fingerprint=replace(case.failure.fingerprint, stage=stage)))
    x, a, n, s = with_ops(case, ["y"]).inputs
    assert x == case.inputs[0]
    assert a == TensorInput("a", case.graph.node("a").value, source, leaf=False, inference=inference)
    assert (n, s) == (ScalarInput("n", 7), ScalarInput("s", None))


def test_a_cut_leaves_the_sizes_that_are_read():
    text = 's0: 2 @ "s0"\nx: float32[4 @ "2*s0"]\na = torch.sin(x)\nb = torch.cos(a)\nc = torch.mul(a, s0)\nreturn b, c'
    case = case_of(text, symbolic=Symbolic.AUTOMATIC)
    assert [item.name for item in with_ops(case, ["b"]).inputs] == ["a"]
    assert [item.name for item in with_ops(case, ["c"]).inputs] == ["s0", "a"]
