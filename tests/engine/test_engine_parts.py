"""Composite ops: if the failure needs only some of the ops that one decomposes into, these are what is left."""

import pytest
from case_samples import call, meta, output, placeholder
from chains import case_of
from fake_prober import has, raises, targets, when

from minifier.data.case import Ref
from minifier.reduction.op_search import reduce_parts
from minifier.search import Budget, Ending

SOFTMAX = ("torch.nn.functional.softmax", {"dim": -1})
GELU = ("torch.nn.functional.gelu", {})


def composite(*calls, shape=(4, 8), **more):
    """A chain of such ops, named after them."""
    value = meta(*shape)
    nodes, last = [placeholder("x", value)], "x"
    for target, kwargs in calls:
        name = target.rpartition(".")[2]
        nodes.append(call(name, target, Ref(last), value=value, **kwargs))
        last = name
    return case_of(*nodes, output(last), **more)


def made_of(op, *composites):
    """The op, or one of those that decompose into it, is in the graph."""
    return lambda case: bool({op, *composites} & set(targets(case)))


@pytest.mark.parametrize(("calls", "op"), [((SOFTMAX,), "exp"), ((SOFTMAX,), "sub"), ((SOFTMAX, GELU), "erf")])
def test_the_op_to_blame_is_left(make_lab, calls, op):
    case = composite(*calls)
    lab, _ = make_lab(case, when(made_of(op, calls[-1][0].rpartition(".")[2]), raises()))
    made, ended = reduce_parts(lab, case, Budget())
    assert ended is Ending.PROVED and targets(made) == [op]


@pytest.mark.parametrize("or_parts", [(), ("exp", "sum")])
def test_an_op_stays_whose_parts_do_not_fail_or_are_more(make_lab, or_parts):
    case = composite(SOFTMAX)
    is_needed = lambda case: has("softmax")(case) or bool(or_parts and has(*or_parts)(case))  # noqa: E731
    lab, _ = make_lab(case, when(is_needed, raises()))
    assert reduce_parts(lab, case, Budget()) == (case, Ending.PROVED) and lab.prepared.case is case
