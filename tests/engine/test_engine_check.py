"""The check phase: what is asked of the whole graph, in which order, and what each answer means."""

from dataclasses import replace

import pytest
from case_samples import call, meta, method, output, placeholder
from chains import case_of, chain
from fake_prober import (
    breaks,
    differs,
    exhausts,
    hangs,
    has,
    invalid,
    passes,
    planned,
    raises,
    seen_failure,
    targets,
    when,
)

from minifier.case import Ref, Scalar, TensorInput
from minifier.case.inputs import Recorded
from minifier.case.ops import with_ops
from minifier.errors import MinifyError, NoRepro, NothingToReduce, OtherMessage
from minifier.failure import Aspect, Stage
from minifier.reduction.check import check, start

CASE = chain("cos", "tanh", "exp")
TANH = when(has("tanh"), raises())
WHOLE = targets(CASE)
AT_RUN = raises(stage=Stage.RUN)


def test_the_whole_graph_twice_and_the_empty_one_once(make_lab):
    lab, prober = make_lab(CASE, TANH)
    assert check(lab) == CASE
    assert prober.ops_asked == [WHOLE, WHOLE, []] and prober.limits == [300.0, 300.0, 2.0]
    assert (lab.rate, lab.repeats, lab.limits.seconds) == (1.0, 1, 2.0)


@pytest.mark.parametrize(("workers", "rounds"), [(1, [1, 1, 1]), (2, [2, 1]), (4, [2, 1])])
def test_two_tries_are_made_at_once_where_that_is_possible(make_lab, workers, rounds):
    lab, prober = make_lab(CASE, TANH, workers=workers)
    check(lab)
    assert [len(cases) for cases in prober.rounds] == rounds


def test_an_expensive_graph_is_tried_once(make_lab):
    lab, prober = make_lab(CASE, when(has("tanh"), raises(seconds=6.0)))
    check(lab)
    assert prober.ops_asked == [WHOLE, []] and lab.limits.seconds == 60.0


def test_a_graph_that_took_long_in_the_script_is_not_tried_twice_at_once(make_lab):
    slow = replace(CASE, script=replace(CASE.script, seconds=6.0))
    lab, prober = make_lab(slow, when(has("tanh"), raises(seconds=6.0)), workers=2)
    check(lab)
    assert prober.ops_asked == [WHOLE, []]


def test_the_time_limit_follows_the_slowest_failing_run(make_lab):
    times = iter([0.5, 1.5])
    lab, _ = make_lab(CASE, lambda case: raises(seconds=next(times)) if case.graph.ops else passes())
    check(lab)
    assert lab.limits.seconds == 15.0


# How the whole graph ends each time, what the user is told, and how often it is tried: what passes, or is no program
# by chance, may come and go; another failure may be a form of the sought one.
NOT_AGAIN = {
    "it passes": (passes(), NoRepro, "the backend took it each time", 24),
    "another message": (raises("no room"), OtherMessage, "it showed RuntimeError in nobackend.lower", 6),
    "another error": (raises("no room", "MemoryError2"), NoRepro, "it showed MemoryError2 in nobackend.lower", 6),
    "eager fails": (invalid(), NoRepro, "ValueError", 24),
    "no memory": (exhausts(), NoRepro, "out-of-memory", 1),
    "a fault of the tool": (breaks(), MinifyError, "a probe failed by itself:\nTraceback: the tool's own", 1),
}


@pytest.mark.parametrize("what", NOT_AGAIN)
def test_a_failure_that_does_not_show_again(make_lab, what):
    ended, error, message, tries = NOT_AGAIN[what]
    lab, prober = make_lab(CASE, lambda case: ended)
    with pytest.raises(error, match=message) as raised:
        check(lab)
    assert type(raised.value) is error
    assert prober.ops_asked == [WHOLE] * tries


def test_a_backend_that_fails_on_nothing_is_told(make_lab):
    lab, prober = make_lab(CASE, lambda case: raises())
    assert check(lab).any_graph
    assert prober.ops_asked[-1] == []


def test_values_are_recorded_where_the_failure_is_at_run_time(make_lab):
    case = chain("cos", "tanh", "exp", failing=AT_RUN)
    lab, prober = make_lab(case, when(has("tanh"), AT_RUN))
    assert lab.prepared.recorded is None
    check(lab)
    assert prober.until == {Stage.RUN}
    assert all(name in lab.prepared.recorded for name in ("cos", "tanh", "exp"))
    (cut,) = with_ops(case, ["tanh"]).inputs
    assert cut.source == Recorded("cos")


def test_nothing_is_recorded_where_the_failure_is_one_of_compiling(make_lab):
    lab, _ = make_lab(CASE, TANH)
    check(lab)
    assert lab.prepared.recorded is None


def test_a_graph_that_fails_in_eager_as_well_is_no_fault_of_the_backend(make_lab):
    nodes = (placeholder("x"), method("view", "view", Ref("x"), 7), output("view"))
    lab, prober = make_lab(case_of(*nodes, failing=AT_RUN), lambda case: AT_RUN)
    with pytest.raises(NothingToReduce, match=r"(?s)fails without the backend as well.*invalid for input of size"):
        check(lab)
    assert prober.asked == []


def test_a_graph_that_cannot_be_run_without_the_backend_is_told(make_lab):
    case = chain("cos", "tanh", failing=AT_RUN)
    lab, _ = make_lab(case, lambda case: AT_RUN)
    lab.run_jobs = lambda jobs, limits, scratch: [breaks() for _ in jobs]
    with pytest.raises(NoRepro, match=r"(?s)could not be run without the backend.*the tool's own"):
        check(lab)


def test_where_eager_is_to_raise_the_op_that_does_is_a_hint(make_lab):
    nodes = (placeholder("x"), call("cos", "torch.cos", Ref("x")), method("view", "view", Ref("cos"), 7))
    no_exception = differs(aspect=Aspect.NO_EXCEPTION)
    lab, _ = make_lab(case_of(*nodes, output("view"), failing=no_exception), when(has("view"), no_exception))
    assert check(lab).failure.hints == (("view",),)


def symbolic():
    """A chain whose size is a symbol."""
    case = chain("cos", "tanh", "exp")
    nodes = tuple(
        replace(node, value=replace(node.value, symbols=("s0", None))) if node.op != "output" else node
        for node in case.graph.nodes
    )
    inputs = tuple(replace(item, meta=replace(item.meta, symbols=("s0", None))) for item in case.inputs)
    return replace(case, graph=replace(case.graph, nodes=nodes), inputs=inputs)


def is_symbolic(case):
    return any(any(item.meta.symbols) for item in case.inputs if isinstance(item, TensorInput))


def test_symbolic_sizes_are_made_numbers_first_where_the_failure_does_not_need_them(make_lab):
    lab, prober = make_lab(symbolic(), TANH)
    assert not is_symbolic(check(lab))
    assert [is_symbolic(case) for case in prober.asked] == [False, False, False, False]


def test_symbolic_sizes_that_are_needed_stay(make_lab):
    lab, prober = make_lab(symbolic(), when(lambda case: has("tanh")(case) and is_symbolic(case), raises()))
    assert is_symbolic(check(lab))
    assert [is_symbolic(case) for case in prober.asked[:3]] == [False, True, True]


def test_numbers_that_come_from_values_are_taken_from_an_eager_run(make_lab):
    value = Scalar(8, "u0")
    nodes = (
        placeholder("x"),
        call("n", "torch.count_nonzero", Ref("x"), value=meta(dtype="int64")),
        method("item", "item", Ref("n"), value=value),
        call("mul", "operator.mul", Ref("x"), Ref("item")),
    )
    lab, prober = make_lab(case_of(*nodes, output("mul")), when(has("mul"), raises()))
    assert check(lab).graph.node("item").value == Scalar(6, "u0")
    assert prober.asked[0].graph.node("item").value.value == 6


# Of the failing call of five: at which number of calls the failure shows, and how many are left.
@pytest.mark.parametrize(("shows_at", "left", "asked"), [(1, 1, [1]), (2, 2, [1, 1, 1, 2]), (5, 5, [1, 1, 1, 2])])
def test_as_few_calls_as_the_failure_needs(make_lab, shows_at, left, asked):
    case = chain("cos", "tanh", failing=AT_RUN, calls=5)
    lab, prober = make_lab(case, when(lambda case: has("tanh")(case) and case.calls >= shows_at, AT_RUN))
    assert check(lab).calls == left
    assert [case.calls for case in prober.asked][: len(asked)] == asked


def test_a_hang_is_timed_by_what_ends(make_lab):
    case = chain("cos", "sin", "tanh", "exp", failing=hangs())
    lab, prober = make_lab(case, when(has("tanh"), hangs(), passes(seconds=0.5)))
    check(lab)
    # The empty graph, the first and the last op end; then the whole graph once, and the empty one.
    assert prober.ops_asked == [[], ["cos"], ["exp"], targets(case), []]
    assert prober.limits == [60.0, 60.0, 60.0, 5.0, 5.0] and lab.limits.seconds == 5.0


def test_an_innocent_candidate_of_a_hang_gets_no_more_than_the_user_gave(make_lab):
    case = chain("cos", "tanh", failing=hangs())
    lab, prober = make_lab(case, when(has("tanh"), hangs()), timeout=3.0)
    check(lab)
    assert prober.limits == [3.0, 3.0, 3.0, 2.0, 2.0]


def test_ops_that_a_smaller_graph_accused_are_tried_alone(make_lab):
    case = chain("cos", "tanh", "exp", backward=True)
    case = replace(case, failure=seen_failure(raises(), hints=(("cos",), ("tanh", "exp"), ("exp",))))
    lab, prober = make_lab(case, TANH)
    assert targets(start(lab)) == ["tanh", "exp"]
    assert prober.ops_asked == [["cos"], ["tanh", "exp"]] and lab.limits.seconds == 2.0


def test_where_none_of_the_accused_fails_the_whole_graph_is_checked(make_lab):
    case = chain("cos", "tanh", "exp", backward=True)
    case = replace(case, failure=seen_failure(raises(), hints=(("cos",),)))
    lab, prober = make_lab(case, TANH)
    assert targets(start(lab)) == WHOLE
    assert prober.ops_asked == [["cos"], WHOLE, WHOLE, []]


def test_a_failure_that_comes_and_goes_is_tried_until_its_rate_is_known(make_lab):
    lab, prober = make_lab(CASE, planned("PF" * 30, TANH))
    check(lab)
    assert (lab.rate, lab.repeats) == (0.5, 15)
    assert prober.ops_asked == [WHOLE] * 24 + [[]] * 15


def test_a_case_that_may_be_flaky_is_tried_as_often_though_it_fails_twice(make_lab):
    lab, prober = make_lab(CASE, planned("FF" + "F" * 10 + "P" * 12 + "F", TANH))
    lab.doubtful = True
    check(lab)
    assert (lab.rate, lab.repeats) == (0.5, 15)
    assert prober.ops_asked == [WHOLE] * 24 + [[]] * 15
