"""Trying Cases: repeats, second tries alone, failures kept aside, limits, and what is known of earlier answers."""

from dataclasses import replace

import pytest
from chains import chain
from fake_prober import breaks, dies, exhausts, hangs, has, invalid, planned, raises, when

from minifier.data.case.ops import with_ops
from minifier.data.failure import Verdict
from minifier.reduction.flakiness import set_rate, set_timeout, set_workers

CASE = chain("cos", "sin", "tanh", "exp")
ALONE = {name: with_ops(CASE, [name]) for name in ("cos", "sin", "tanh", "exp")}
TANH = when(has("tanh"), raises())


def verdicts(judged):
    return [each.verdict for each in judged]


def test_answers_come_in_order_and_are_counted(make_lab):
    lab, _ = make_lab(CASE, when(has("tanh"), raises(), when(has("sin"), invalid())), workers=4)
    judged = lab.probe([ALONE["cos"], ALONE["tanh"], ALONE["sin"], CASE])
    assert verdicts(judged) == [Verdict.PASS, Verdict.SAME, Verdict.INVALID, Verdict.SAME]
    assert lab.counts == {Verdict.PASS: 1, Verdict.SAME: 2, Verdict.INVALID: 1} and lab.total == 4


def test_what_passes_is_tried_again_where_failures_come_and_go(make_lab):
    lab, prober = make_lab(CASE, planned("PPFFPP", TANH), workers=2)
    lab.repeats = 3
    assert verdicts(lab.probe([ALONE["tanh"], ALONE["cos"]])) == [Verdict.SAME, Verdict.PASS]
    assert len(prober.asked) == 6 and lab.total == 2, "repeated tries are one probe"


@pytest.mark.parametrize("ended", [exhausts(), hangs()], ids=["memory", "time"])
def test_what_ran_short_beside_others_is_tried_again_alone(make_lab, ended):
    def fault(case):
        return ended if case == ALONE["tanh"] and len(prober.rounds[-1]) > 1 else TANH(case)

    lab, prober = make_lab(CASE, fault, workers=2)
    assert verdicts(lab.probe([ALONE["tanh"], ALONE["cos"]])) == [Verdict.SAME, Verdict.PASS]
    lab, _ = make_lab(CASE, when(has("tanh"), exhausts()), workers=2)
    assert verdicts(lab.probe([ALONE["tanh"]])) == [Verdict.UNRESOLVED]


def test_a_hang_that_is_sought_is_no_lack_of_time(make_lab):
    lab, prober = make_lab(chain("tanh", failing=hangs()), lambda case: hangs(), workers=2)
    assert verdicts(lab.probe([lab.prepared.case] * 2)) == [Verdict.SAME] * 2 and len(prober.asked) == 2


def test_other_failures_are_kept_aside_with_their_smallest_case(make_lab):
    lab, _ = make_lab(CASE, when(has("sin"), raises("no room"), when(has("exp"), dies(), TANH)))
    for ops in (["cos", "sin"], ["sin"], ["sin", "tanh"], ["exp"], ["cos", "tanh"]):
        lab.probe([with_ops(CASE, ops)])
    found = [(o.failure.message, [n.name for n in o.program.graph.ops], o.sightings) for o in lab.others]
    assert found == [("no room", ["sin"], 3), ("SIGSEGV", ["exp"], 1)]
    lab, _ = make_lab(CASE, lambda case: raises("no room"))
    lab.probe([with_ops(CASE, [])])
    lab.phase = "simplify"
    lab.probe([CASE])
    assert lab.others == [], "without ops, and what a pass made"


def test_a_fault_of_the_tools_own_is_no_answer(make_lab):
    lab, _ = make_lab(CASE, lambda case: breaks())
    (judged,) = lab.probe([CASE])
    assert judged.verdict is Verdict.UNRESOLVED and lab.faults == [judged.fault]
    answers = lab.run([lambda: {"status": "pass", "n": 1}, lambda: 1 // 0, lambda: {"n": 3}])
    assert answers == [{"status": "pass", "n": 1}, None, {"n": 3}] and len(lab.faults) == 2


# Seconds of a failing run, the user's limit, whether a hang is sought; the limit of each probe from then on.
TIMEOUTS = [
    (0.01, None, False, 2.0),
    (1.5, None, False, 15.0),
    (90.0, None, False, 300.0),
    (1.5, 40.0, False, 40.0),
    (1.5, 40.0, True, 15.0),
    (1.5, 4.0, True, 4.0),
]


@pytest.mark.parametrize(("seconds", "given", "hang", "limit"), TIMEOUTS)
def test_the_time_limit_follows_a_failing_run(make_lab, seconds, given, hang, limit):
    lab, _ = make_lab(chain("tanh", failing=hangs()) if hang else CASE, TANH, timeout=given)
    set_timeout(lab, seconds)
    assert lab.limits.seconds == limit


(INPUT,) = CASE.inputs
ON_DEVICE = replace(CASE, inputs=(replace(INPUT, meta=replace(INPUT.meta, device="cuda:0")),))
# What keeps probes from being made at once where nobody asked for a number of them.
ALONE_BECAUSE = {
    "they are quick": (CASE, {}, 0.1),
    "memory is limited": (CASE, {"memory": 2**30}, 60.0),
    "a hang is sought": (chain("tanh", failing=hangs()), {}, 60.0),
    "a lack of memory is sought": (chain("tanh", failing=exhausts()), {}, 60.0),
    "they run on another device": (ON_DEVICE, {}, 60.0),
}


@pytest.mark.parametrize("why", ALONE_BECAUSE)
def test_probes_are_made_one_by_one_where(make_lab, why):
    case, settings, seconds = ALONE_BECAUSE[why]
    lab, _ = make_lab(case, TANH, **settings)
    set_workers(lab, seconds)
    assert lab.workers == 1


@pytest.mark.parametrize(("shown", "tries"), [(1, 2), (3, 4), (1, 24)])
def test_a_candidate_that_fails_as_often_is_missed_once_in_a_hundred_times(make_lab, shown, tries):
    lab, _ = make_lab(CASE, TANH)
    set_rate(lab, shown, tries)
    passing = 1 - shown / tries
    assert lab.rate == shown / tries and passing**lab.repeats <= 0.01 < passing ** (lab.repeats - 1)
    set_rate(lab, tries, tries)
    assert (lab.rate, lab.repeats) == (1.0, 1)


@pytest.mark.parametrize("seconds", [0.1, 1.0, 10.0])
def test_repetitions_are_at_most_what_the_budget_pays(make_lab, seconds):
    lab, _ = make_lab(CASE, TANH, budget=200.0)
    lab.last_seconds = seconds
    set_rate(lab, 1, 24)
    assert lab.repeats >= 1 and (lab.repeats - 1) * seconds <= 10.0
