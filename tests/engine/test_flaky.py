"""Failures that come and go, with the chances dealt: each try fails or passes by a plan."""

import itertools
import random

import pytest
from chains import chain, names
from fake_prober import flaky, hangs, has, passes, planned, raises, when

from minifier.case.ops import with_ops
from minifier.errors import NoRepro, OtherMessage
from minifier.failure import Stage, Verdict
from minifier.reduction.flakiness import fewest_calls, in_one_call, misjudged, tries_of

OFTEN = "".join(random.Random(1).choices("PF", k=2000))  # half of the time
SELDOM = "".join(random.Random(1).choices("PPF", k=2000))
AT_RUN = raises(stage=Stage.RUN)
OPS = ("cos", "neg", "exp", "sin", "tanh", "sigmoid", "abs")
TANH = when(has("tanh"), AT_RUN)


def by_plan(plan):
    """A letter of the plan at each call of a candidate with a tanh."""
    return planned(plan, TANH, each_call=True)


def reduced(reduce, calls, plan, **more):
    return reduce(chain(*OPS, failing=AT_RUN, calls=calls), by_plan(plan), **more)


def test_a_failure_of_every_call_is_taken_for_what_it_is(reduce):
    done = reduced(reduce, 1, "FF")
    assert (names(done.case), done.case.calls, done.case.rate) == (["tanh"], 1, 1)


LATE = {
    "missed by the first tries of one call": "PPF" + OFTEN,
    "missed by all tries of one call, met at the second": "PPP" + "PF" + OFTEN,
    "missed by all tries of fewer calls": "PPP" + "PP" + "PPPF" * 2 + OFTEN,
    "met by the first try of one call": "FPF" + OFTEN,
}


@pytest.mark.parametrize("when_met", LATE)
def test_a_failure_that_came_late_by_chance_needs_one_call(reduce, when_met):
    done = reduced(reduce, 4, LATE[when_met])
    assert (names(done.case), done.case.calls) == (["tanh"], 1)
    assert 0.3 < done.case.rate < 0.7


def test_ops_left_by_chance_are_taken_out_once_chance_is_seen(reduce):
    # The check sees it twice, and every candidate of the search passes but the whole graph.
    done = reduced(reduce, 1, "FF" + "P" * 12 + OFTEN)
    assert (names(done.case), done.case.calls) == (["tanh"], 1)
    assert 0.3 < done.case.rate < 0.7


def test_a_rate_that_was_believed_too_high_is_corrected(reduce):
    # 23 of 24 tries of the whole graph fail; then every third one.
    done = reduced(reduce, 1, "FP" + "F" * 22 + "PPPPPP" + SELDOM)
    assert names(done.case) == ["tanh"]
    assert done.case.rate < 0.6


@pytest.mark.parametrize(("rate", "workers", "seed"), [(0.3, 1, 0), (0.3, 4, 1), (0.5, 2, 2), (0.8, 1, 3), (0.8, 4, 4)])
def test_at_any_rate_the_needed_ops_are_left(reduce, rate, workers, seed):
    fault = flaky(rate, when(has("cos", "tanh"), AT_RUN), seed)
    done = reduce(chain(*OPS, failing=AT_RUN), fault, workers, doubtful=True, passes=())
    # Two needed ops stay, whatever chance says; the search may leave more once in a thousand answers.
    assert {"cos", "tanh"} <= set(names(done.case)) and len(names(done.case)) <= 3
    assert done.case.rate == pytest.approx(rate, abs=0.3)


def verdicts(tries):
    return "".join({Verdict.SAME: "F", Verdict.PASS: "P", Verdict.OTHER: "O"}.get(each.verdict, "?") for each in tries)


CASE = chain("cos", "tanh")


@pytest.mark.parametrize(
    ("plan", "tried"),
    [("FF", "FF"), ("FP" + "F" * 30, "FP" + "F" * 22), ("PP", "P" * 24), ("PF" + "P" * 30, "PF" + "P" * 22)],
)
def test_as_many_tries_as_there_is_doubt(make_lab, plan, tried):
    lab, _ = make_lab(CASE, planned(plan, when(has("tanh"), raises())))
    assert verdicts(tries_of(lab, CASE)) == tried


def test_six_equal_answers_are_enough_for_another_failure(make_lab):
    lab, _ = make_lab(CASE, lambda case: raises("no room"), workers=2)
    assert verdicts(tries_of(lab, CASE)) == "OOOOOO"


@pytest.mark.parametrize(("seconds", "tries"), [(4.9, 13), (5.1, 12), (0.01, 24)])
def test_tries_take_a_minute_at_most(make_lab, seconds, tries):
    lab, _ = make_lab(CASE, planned("FP", when(has("tanh"), raises(seconds=seconds))))
    lab.doubtful = True
    assert len(tries_of(lab, CASE)) == tries


def test_a_hang_is_tried_once(make_lab):
    hang = chain("tanh", failing=hangs())
    lab, prober = make_lab(hang, lambda case: passes(), workers=4)
    tries_of(lab, hang)
    assert len(prober.asked) == 1


def at_calls(shows_at):
    return when(lambda case: case.calls >= shows_at, AT_RUN)


MANY = chain("tanh", failing=AT_RUN, calls=5)


@pytest.mark.parametrize(
    ("plan", "calls", "asked", "doubtful"),
    [
        ("FFF", 1, [1, 1, 1], False),
        ("PFP", 1, [1, 1, 1], True),
        ("PPPF", 2, [1, 1, 1, 2], False),
        ("PPPPP", 5, [1, 1, 1, 2], False),
    ],
)
def test_fewer_calls_are_tried_three_times(make_lab, plan, calls, asked, doubtful):
    lab, prober = make_lab(MANY, planned(plan, lambda case: AT_RUN))
    assert fewest_calls(lab, MANY).calls == calls
    assert [case.calls for case in prober.asked] == asked and lab.doubtful is doubtful


def test_slow_calls_are_tried_once(make_lab):
    slow = raises(stage=Stage.RUN, seconds=1.5)
    lab, prober = make_lab(MANY, when(lambda case: case.calls > 4, slow, passes(1.5)))
    assert fewest_calls(lab, MANY).calls == 5 and [case.calls for case in prober.asked] == [1, 2]


def test_a_second_call_is_not_tried_where_there_are_two(make_lab):
    twice = chain("tanh", failing=AT_RUN, calls=2)
    lab, prober = make_lab(twice, at_calls(2))
    assert fewest_calls(lab, twice) is twice and [case.calls for case in prober.asked] == [1, 1, 1]


@pytest.mark.parametrize(("repeats", "tries"), [(1, 12), (5, 24)])
def test_one_call_is_tried_singly_and_sets_the_rate(make_lab, repeats, tries):
    lab, prober = make_lab(MANY, planned("PF", lambda case: AT_RUN))
    lab.repeats = repeats
    once = in_one_call(lab, MANY)
    assert once.calls == 1 and len(prober.asked) == tries and lab.rate == 0.5


def test_a_failure_that_never_shows_in_one_call_keeps_its_calls(make_lab):
    lab, prober = make_lab(MANY, at_calls(2))
    assert in_one_call(lab, MANY) is MANY and len(prober.asked) == 12
    assert (lab.rate, lab.repeats) == (1.0, 1)


# How many of the tries are made before a reduced graph is believed, and whether the search is to go on.
BELIEVED = {
    "it fails each time": ("FFF", 1, 3, False),
    "it fails most times": ("FPF" + "F" * 30, 1, 24, True),
    "as often as was believed": ("FP" * 20, 15, 24, False),
    "more seldom than was believed": ("FPPPPPPP" * 4, 8, 24, True),
}


@pytest.mark.parametrize("how", BELIEVED)
def test_a_reduced_graph_is_tried_again(make_lab, how):
    plan, repeats, tries, doubted = BELIEVED[how]
    lab, prober = make_lab(CASE, planned(plan, when(has("tanh"), raises())))
    lab.repeats = repeats
    assert misjudged(lab, CASE) is doubted
    assert len(prober.asked) == tries
    assert lab.rate == plan[:tries].count("F") / tries


def test_a_graph_that_another_answer_contradicts_is_tried_oftener(make_lab):
    lab, prober = make_lab(CASE, when(lambda case: len(case.graph.ops) == 1, raises()))
    lab.phase = "delete"
    lab.probe([CASE])
    assert not misjudged(lab, with_ops(CASE, ["tanh"])) and len(prober.asked) == 13


def test_a_slow_graph_is_believed(make_lab):
    lab, prober = make_lab(CASE, lambda case: raises(seconds=1.5))
    lab.probe([CASE])
    assert not misjudged(lab, CASE) and len(prober.asked) == 1


def race(plan, *forms):
    """Each probe of a candidate with a tanh shows the form whose number is next in the plan, again and again."""
    numbers = itertools.cycle(map(int, plan))
    return lambda case: forms[next(numbers)] if has("tanh")(case) else passes()


INDEX, VALUE, KEY = (raises(kind=kind, stage=Stage.RUN) for kind in ("IndexError", "ValueError", "KeyError"))


@pytest.mark.parametrize("plan", ["01", "10", "1110", "0010", "0201"])
def test_each_form_that_a_race_shows_on_the_whole_graph_is_the_failure(reduce, plan):
    done = reduce(chain(*OPS, failing=INDEX), race(plan, INDEX, VALUE, KEY), doubtful=True)
    assert names(done.case) == ["tanh"] and done.case.rate == 1
    assert {form.types for form in done.case.failure.fingerprint.forms} <= {("ValueError",), ("KeyError",)}
    assert done.case.failure.fingerprint.types == ("IndexError",) and done.summary.others == ()


@pytest.mark.parametrize("again", [0, 1, 5])
def test_a_message_that_is_drawn_each_time_is_no_race(reduce, again):
    messages = [f"engine {first}{second} has no kernel" for first in "abcde" for second in "vwxyz"]
    drawn = [raises(message) for message in messages]
    drawn.insert(again, sought := raises("engine of the run has no kernel"))
    plan = iter(drawn)
    with pytest.raises(OtherMessage, match=r"shows other messages: .*has no kernel"):
        reduce(chain(*OPS, failing=sought), lambda case: next(plan) if has("tanh")(case) else passes())


def test_a_form_that_only_the_confirmation_shows_is_one_too(reduce):
    plan = "00" + "0" * 40 + "10" * 40
    done = reduce(chain("cos", "tanh", failing=INDEX), race(plan, INDEX, VALUE))
    assert names(done.case) == ["tanh"]


def test_another_failure_each_time_is_no_form_of_the_sought_one(reduce):
    with pytest.raises(NoRepro, match="it showed ValueError"):
        reduce(chain(*OPS, failing=INDEX), race("1", INDEX, VALUE))
