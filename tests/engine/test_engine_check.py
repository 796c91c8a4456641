"""The check phase: what a whole graph has to show before anything is taken away from it."""

from dataclasses import replace

import pytest
from case_samples import call, method, output, placeholder
from chains import case_of, chain
from fake_prober import breaks, dies, differs, exhausts, hangs, has, invalid, passes, planned, raises, targets, when

from minifier.data.case import Ref
from minifier.data.case.inputs import Recorded
from minifier.data.case.ops import with_ops
from minifier.data.failure import Aspect, Stage, Verdict
from minifier.errors import MinifyError, NoRepro, NothingToReduce, OtherMessage
from minifier.reduction.check import check

CASE = chain("cos", "tanh", "exp")
TANH = when(has("tanh"), raises())
WHOLE = targets(CASE)
AT_RUN = raises(stage=Stage.RUN)


@pytest.mark.parametrize(("seconds", "limit", "most"), [(0.01, 2.0, 4), (1.5, 15.0, 4), (6.0, 60.0, 2)])
@pytest.mark.parametrize("workers", [1, 4])
def test_the_whole_graph_and_the_empty_one_are_tried(make_lab, seconds, limit, most, workers):
    """An expensive graph is tried once."""
    case = replace(CASE, script=replace(CASE.script, seconds=seconds))
    lab, prober = make_lab(case, when(has("tanh"), raises(seconds=seconds)), workers)
    assert check(lab) == case
    assert WHOLE in prober.ops_asked and [] in prober.ops_asked and len(prober.asked) <= most
    assert (lab.rate, lab.repeats, lab.limits.seconds) == (1.0, 1, limit)


# How the whole graph ends each time, what the user is told, and how often it is tried at most: what passes, or is no
# program by chance, may come and go; another failure may be a form of the sought one.
NOT_AGAIN = {
    "it passes": (passes(), NoRepro, 24),
    "another message": (raises("no room"), OtherMessage, 6),
    "another error": (raises("no room", "MemoryError2"), NoRepro, 6),
    "eager fails": (invalid(), NoRepro, 24),
    "no memory": (exhausts(), NoRepro, 1),
    "a fault of the tool": (breaks(), MinifyError, 1),
}


@pytest.mark.parametrize("what", NOT_AGAIN)
def test_a_failure_that_does_not_show_again(make_lab, what):
    ended, error, most = NOT_AGAIN[what]
    lab, prober = make_lab(CASE, lambda case: ended)
    with pytest.raises(error) as raised:
        check(lab)
    assert type(raised.value) is error and 1 <= len(prober.asked) <= most


def test_what_native_code_wrote_belongs_to_the_failure_from_then_on(make_lab):
    of_tanh, of_cos = (dies(written=f"<unknown>:0: error: no tile for {name}\n") for name in ("tanh", "cos"))
    fault = when(has("tanh"), of_tanh, when(has("cos"), of_cos))
    lab, _ = make_lab(chain("cos", "tanh", "exp", failing=dies()), fault)
    case = check(lab)
    assert case.failure.written == "<unknown>:0: error: no tile for tanh"
    judged = lab.probe([with_ops(case, ["tanh"]), with_ops(case, ["cos"])])
    assert [each.verdict for each in judged] == [Verdict.SAME, Verdict.OTHER]


def test_a_backend_that_fails_on_nothing(make_lab):
    lab, _ = make_lab(CASE, lambda case: raises())
    assert check(lab).any_graph


def test_values_are_recorded_where_the_failure_is_at_run_time(make_lab):
    case = chain("cos", "tanh", "exp", failing=AT_RUN)
    lab, prober = make_lab(case, when(has("tanh"), AT_RUN))
    check(lab)
    assert prober.until == {Stage.RUN} and all(name in lab.prepared.recorded for name in WHOLE)
    (cut,) = with_ops(case, ["tanh"]).inputs
    assert cut.source == Recorded("cos")


def test_a_graph_that_fails_in_eager_as_well_is_no_fault_of_the_backend(make_lab):
    nodes = (placeholder("x"), method("view", "view", Ref("x"), 7), output("view"))
    lab, prober = make_lab(case_of(*nodes, failing=AT_RUN), lambda case: AT_RUN)
    with pytest.raises(NothingToReduce):
        check(lab)
    assert prober.asked == []
    lab, _ = make_lab(chain("cos", "tanh", failing=AT_RUN), lambda case: AT_RUN)
    lab.run_jobs = lambda jobs, limits, scratch: [breaks() for _ in jobs]
    with pytest.raises(NoRepro):
        check(lab)


def test_where_eager_is_to_raise_the_op_that_does_is_a_hint(make_lab):
    nodes = (placeholder("x"), call("cos", "torch.cos", Ref("x")), method("view", "view", Ref("cos"), 7))
    no_exception = differs(aspect=Aspect.NO_EXCEPTION)
    lab, _ = make_lab(case_of(*nodes, output("view"), failing=no_exception), when(has("view"), no_exception))
    assert check(lab).failure.hints == (("view",),)


def test_a_hang_is_timed_by_what_ends(make_lab):
    case = chain("cos", "sin", "tanh", "exp", failing=hangs())
    lab, prober = make_lab(case, when(has("tanh"), hangs(), passes(seconds=0.5)))
    check(lab)
    assert lab.limits.seconds == 5.0 and prober.ops_asked.count(targets(case)) == 1
    lab, prober = make_lab(case, when(has("tanh"), hangs()), timeout=3.0)
    check(lab)
    assert max(prober.limits) == 3.0
    backward = replace(hangs(), stage=Stage.BACKWARD_COMPILE.value)
    forward_first = when(has("tanh"), hangs(), passes(seconds=0.5))  # compiled in 8 seconds
    case = chain("cos", "sin", "tanh", "exp", failing=backward)
    lab, _ = make_lab(case, when(lambda each: has("tanh")(each) and lab.limits.seconds > 8.0, backward, forward_first))
    check(lab)
    assert lab.limits.seconds == 15.0, "three times 5 seconds, for all that is asked"


@pytest.mark.parametrize(
    ("plan", "doubtful"), [("PF" * 30, False), ("FF" + "F" * 10 + "P" * 12 + "F", True)], ids=["seen", "told"]
)
def test_a_failure_that_comes_and_goes_is_tried_until_its_rate_is_known(make_lab, plan, doubtful):
    lab, prober = make_lab(CASE, planned(plan, TANH))
    lab.doubtful = doubtful
    check(lab)
    assert lab.rate == 0.5 and lab.repeats > 1 and len(prober.asked) <= 40
