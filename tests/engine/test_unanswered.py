"""Candidates that give no answer: asked again where the proof rests on them, and counted if they never answer."""

import signal

import pytest
from chains import chain, names
from fake_prober import dies, exhausts, hangs, has, invalid, passes, raises, when

from minifier.data.case.calls import call_of
from minifier.errors import NoRepro

CASE = chain("sin", "cos", "tanh", "exp", "relu", "neg")


def unsteady(answer, times):
    """A fault of tanh. The op alone gives `answer` so many times before."""
    asked = []

    def fault(case):
        if names(case) == ["tanh"]:
            asked.append(case)
            if len(asked) <= times:
                return answer
        return raises() if "tanh" in names(case) else passes()

    return fault


@pytest.mark.parametrize("answer", [dies(signal.SIGKILL), exhausts(), hangs()])
def test_a_candidate_without_an_answer_is_asked_again(reduce, answer):
    done = reduce(CASE, unsteady(answer, 1), passes=())
    assert names(done.case) == ["tanh"] and done.summary.one_minimal and done.summary.unanswered == 0


def test_a_whole_graph_whose_probe_a_stranger_killed_is_tried_three_times(reduce):
    answers = [dies(signal.SIGKILL), dies(signal.SIGKILL)]
    done = reduce(CASE, lambda case: answers.pop() if answers else unsteady(passes(), 0)(case), passes=())
    assert names(done.case) == ["tanh"] and done.summary.one_minimal
    with pytest.raises(NoRepro):
        reduce(CASE, lambda case: dies(signal.SIGKILL), passes=())


@pytest.mark.parametrize("answer", [dies(signal.SIGKILL)])
def test_what_never_answers_leaves_the_proof_open(reduce, answer):
    done = reduce(CASE, unsteady(answer, 100), passes=())
    assert "tanh" in names(done.case) and len(names(done.case)) == 2
    assert not done.summary.one_minimal and done.summary.unanswered == 1 and not done.summary.stopped_because


@pytest.mark.parametrize("times", [1, 100])
def test_eager_that_fails_on_a_candidate_is_asked_again(reduce, times):
    """Of chance, once; or each time, so that nobody knows whether the failure is gone."""
    done = reduce(CASE, unsteady(invalid(), times), passes=())
    assert len(names(done.case)) == (1 if times == 1 else 2) and done.summary.one_minimal is (times == 1)
    assert done.summary.invalid_ops == int(times > 1) and bool(done.summary.exceptions) is (times > 1)


def killed(condition, times, otherwise):
    """A fault whose candidates that meet the condition give no answer in so many probes, each of three children."""
    asked = []

    def fault(case):
        if condition(case) and len(asked) < 3 * times:
            asked.append(case)
            return dies(signal.SIGKILL)
        return otherwise(case)

    return fault


def is_empty(case):
    return not case.graph.ops


@pytest.mark.parametrize("times", [1, 100])
def test_the_graph_without_ops_is_asked_again_if_one_op_is_left(reduce, times):
    done = reduce(CASE, killed(is_empty, times, when(has("tanh"), raises())), passes=())
    assert names(done.case) == ["tanh"] and not done.case.any_graph
    assert done.summary.one_minimal is (times == 1) and done.summary.unanswered == int(times > 1)


@pytest.mark.parametrize("times", [1, 100])
def test_calls_ahead_are_asked_for_again(reduce, times):
    calls = tuple(call_of(chain(op, shape=(size, 3))) for size, op in enumerate(("exp", "abs", "neg"), 5))
    case = chain("sin", "tanh", before=calls)
    fault = killed(lambda case: case.before == (), times, when(has("tanh"), raises()))
    done = reduce(case, fault, passes=())
    assert names(done.case) == ["tanh"] and bool(done.case.before) is (times > 1)
    assert done.summary.one_minimal is (times == 1) and done.summary.unanswered == int(times > 1)


def of_size(*sizes):
    return lambda case: any(item.meta.shape[-1] in sizes for item in case.inputs)


@pytest.mark.parametrize(("times", "needs"), [(1, ("a size of exactly 8 in dimension 1 of `x`",)), (100, ())])
def test_a_row_of_a_pass_without_an_answer_is_no_need(reduce, times, needs):
    """Of the sizes below 8, the last that is tried, 7, gives no answer for a while."""
    fault = killed(of_size(7), times, when(of_size(8), raises()))
    done = reduce(chain("tanh", shape=(1, 8)), fault, passes=("sizes",))
    assert done.case.inputs[0].meta.shape == (1, 8) and done.case.needs == needs
    assert done.summary.one_minimal and done.summary.unanswered == int(times > 1)
    assert done.summary.passes["sizes"] == ("fixpoint" if times == 1 else "unanswered")
