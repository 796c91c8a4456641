"""Composite ops: if the failure needs only some of the ops that one decomposes into, these are what is left."""

import pytest
from case_samples import call, meta, output, placeholder
from chains import case_of, chain, names
from fake_prober import dies, hangs, has, raises, targets, when

from minifier.case import Level, Ref
from minifier.failure import Stage
from minifier.reduction.composite_ops import reduce_parts
from minifier.search import Budget, Ending

SOFTMAX = ("torch.nn.functional.softmax", {"dim": -1})
GELU = ("torch.nn.functional.gelu", {})
MSE = ("torch.nn.functional.mse_loss", {})


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


@pytest.mark.parametrize(
    ("calls", "op", "left"),
    [
        ((SOFTMAX,), "exp", ["exp"]),
        ((SOFTMAX,), "sub", ["sub"]),
        ((GELU,), "erf", ["erf"]),
        ((SOFTMAX, GELU), "erf", ["erf"]),
    ],
)
def test_the_op_to_blame_is_left(make_lab, calls, op, left):
    composites = [target.rpartition(".")[2] for target, _ in calls][-1:]
    case = composite(*calls)
    lab, _ = make_lab(case, when(made_of(op, *composites), raises()))
    made, ended = reduce_parts(lab, case, Budget())
    assert ended is Ending.PROVED and targets(made) == left
    assert set(names(made)) <= set(lab.position), "the lab goes on with the decomposed graph"


def test_an_op_that_is_needed_whole_stays(make_lab):
    case = composite(SOFTMAX)
    lab, prober = make_lab(case, when(has("softmax"), raises()))
    made, ended = reduce_parts(lab, case, Budget())
    assert made == case and ended is Ending.PROVED and len(prober.asked) == 1 and lab.prepared.case is case


def test_ops_that_all_are_needed_stay_one(make_lab):
    """More ops than before are no simplification."""
    case = composite(SOFTMAX)
    lab, _ = make_lab(case, when(lambda case: has("softmax")(case) or has("exp", "sum")(case), raises()))
    made, ended = reduce_parts(lab, case, Budget())
    assert made == case and ended is Ending.PROVED and lab.prepared.case is case


def test_an_op_without_parts_costs_nothing(make_lab):
    case = chain("cos")
    lab, prober = make_lab(case, lambda case: raises())
    assert reduce_parts(lab, case, Budget()) == (case, Ending.PROVED) and prober.asked == []


# Where there is nothing to try: many ops, failures of running and hangs, ATen graphs, flaky ones.
NOT_TRIED = {
    "many ops": (composite(SOFTMAX, GELU, SOFTMAX, GELU), 1),
    "run time": (composite(SOFTMAX, failing=raises(stage=Stage.RUN)), 1),
    "a hang": (composite(SOFTMAX, failing=hangs()), 1),
    "an ATen graph": (composite(SOFTMAX, level=Level.AOT_FORWARD), 1),
    "flaky": (composite(SOFTMAX), 2),
}


@pytest.mark.parametrize("why", NOT_TRIED)
def test_parts_are_not_looked_for(make_lab, why):
    case, repeats = NOT_TRIED[why]
    lab, prober = make_lab(case, when(made_of("exp", "softmax"), raises()))
    lab.repeats = repeats
    assert reduce_parts(lab, case, Budget()) == (case, Ending.PROVED) and prober.asked == []


def test_a_child_that_dies_of_the_decomposition_leaves_the_op(make_lab):
    case = composite(SOFTMAX)
    lab, prober = make_lab(case, when(made_of("exp", "softmax"), raises()))
    lab.run_jobs = lambda jobs, limits, scratch: [dies() for _ in jobs]
    assert reduce_parts(lab, case, Budget()) == (case, Ending.PROVED) and prober.asked == []


@pytest.mark.parametrize("probes", [1, 2, 3])
def test_parts_end_with_the_budget_and_leave_the_op(make_lab, probes):
    case = composite(SOFTMAX)
    lab, prober = make_lab(case, when(made_of("exp", "softmax"), raises()))
    made, ended = reduce_parts(lab, case, Budget(max_probes=probes))
    assert (made, ended) == (case, Ending.MAX_PROBES) and len(prober.asked) == probes
    assert lab.prepared.case is case


def test_the_journal_tells_the_parts_from_the_search(make_lab):
    case = composite(SOFTMAX)
    lab, _ = make_lab(case, when(made_of("exp", "softmax"), raises()))
    reduce_parts(lab, case, Budget())
    text = (lab.folder / "journal.jsonl").read_text()
    assert text.count('"phase": "parts"') == text.count("\n") > 1


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_the_whole_way(reduce, workers):
    """Several ops, of which a composite one makes the op that is refused."""
    case = composite(GELU, SOFTMAX)
    done = reduce(case, when(made_of("exp", "softmax"), raises()), workers)
    assert [node.target for node in done.case.graph.ops] == ["torch.exp"]
    assert done.summary.one_minimal and not done.summary.notes


def test_the_pass_can_be_left_out(reduce):
    done = reduce(composite(GELU, SOFTMAX), when(made_of("exp", "softmax"), raises()), skipped=("parts",))
    assert targets(done.case) == ["softmax"]
