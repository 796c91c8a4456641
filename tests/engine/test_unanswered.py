"""Candidates that give no answer: asked again where the proof rests on them, and counted if they never answer."""

import signal

import pytest
from chains import chain, names
from fake_prober import dies, exhausts, hangs, passes, raises

from minifier.errors import NoRepro
from minifier.report.outcome import Outcome, Status

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
    with pytest.raises(NoRepro, match="SIGKILL"):
        reduce(CASE, lambda case: dies(signal.SIGKILL), passes=())


@pytest.mark.parametrize("answer", [dies(signal.SIGKILL), exhausts()])
def test_what_never_answers_leaves_the_proof_open(reduce, answer):
    done = reduce(CASE, unsteady(answer, 100), passes=())
    assert "tanh" in names(done.case) and len(names(done.case)) == 2
    assert not done.summary.one_minimal and done.summary.unanswered == 1 and not done.summary.stopped_because
    outcome = Outcome(Status.REDUCED, CASE, done.case, done.summary, None, None, "", 1.0, 2.0)
    assert outcome.proved == "minimal but for 1 candidate that gave no answer"
