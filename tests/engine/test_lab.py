"""Trying Cases: repeats, second tries alone, failures kept aside, limits, and what is known of earlier answers."""

import math
from dataclasses import replace

import pytest
from chains import chain
from fake_prober import (
    breaks,
    dies,
    differs_by,
    exhausts,
    hangs,
    has,
    invalid,
    logs,
    passes,
    planned,
    raises,
    seen_failure,
    when,
)

from minifier.case.ops import with_ops
from minifier.failure import Aspect, Difference, Kind, Stage, Verdict
from minifier.probe.children import ChildEnd
from minifier.reduction.journal import ranges
from minifier.reduction.probe_conditions import miss_chance, set_rate, set_timeout, set_workers
from minifier.reduction.rates import surely
from minifier.reduction.save_reduced import as_sighted

CASE = chain("cos", "sin", "tanh", "exp")
ALONE = {name: with_ops(CASE, [name]) for name in ("cos", "sin", "tanh", "exp")}
TANH = when(has("tanh"), raises())


def verdicts(judged):
    return [each.verdict for each in judged]


def test_answers_come_in_order_and_are_counted(make_lab):
    lab, prober = make_lab(CASE, when(has("tanh"), raises(), when(has("sin"), invalid())), workers=4)
    judged = lab.probe([ALONE["cos"], ALONE["tanh"], ALONE["sin"], CASE])
    assert verdicts(judged) == [Verdict.PASS, Verdict.SAME, Verdict.INVALID, Verdict.SAME]
    assert lab.counts == {Verdict.PASS: 1, Verdict.SAME: 2, Verdict.INVALID: 1} and lab.total == 4
    assert len(prober.rounds) == 1 and prober.until == {Stage.COMPILE}


def test_the_prober_says_how_many_are_worth_trying_at_once(make_lab):
    lab, prober = make_lab(CASE, TANH)
    prober.slots = 3
    lab.probe([CASE])
    assert lab.workers == 3
    prober.slots = None
    lab.probe([CASE])
    assert lab.workers == 3


def test_what_passes_is_tried_again_where_failures_come_and_go(make_lab):
    lab, prober = make_lab(CASE, planned("PPFFPP", TANH), workers=2)
    lab.repeats = 3
    judged = lab.probe([ALONE["tanh"], ALONE["cos"]])
    # The first shows it at the third try; the second passes every time.
    assert verdicts(judged) == [Verdict.SAME, Verdict.PASS]
    assert [len(cases) for cases in prober.rounds] == [2, 2, 2]
    assert lab.total == 2, "repeated tries are one probe"


def test_a_failure_shown_at_once_is_not_tried_again(make_lab):
    lab, prober = make_lab(CASE, TANH)
    lab.repeats = 9
    lab.probe([CASE])
    assert len(prober.asked) == 1


@pytest.mark.parametrize("ended", [exhausts(), hangs()], ids=["memory", "time"])
def test_what_ran_short_beside_others_is_tried_again_alone(make_lab, ended):
    def fault(case):
        return ended if case == ALONE["tanh"] and len(prober.rounds[-1]) > 1 else TANH(case)

    lab, prober = make_lab(CASE, fault, workers=2)
    assert verdicts(lab.probe([ALONE["tanh"], ALONE["cos"]])) == [Verdict.SAME, Verdict.PASS]
    assert prober.rounds[1:] == [[ALONE["tanh"]]]


def test_what_runs_short_alone_stays_open(make_lab):
    lab, prober = make_lab(CASE, when(has("tanh"), exhausts()), workers=2)
    assert verdicts(lab.probe([ALONE["tanh"]])) == [Verdict.UNRESOLVED] and len(prober.rounds) == 1


def test_a_hang_that_is_sought_is_no_lack_of_time(make_lab):
    lab, prober = make_lab(chain("tanh", failing=hangs()), lambda case: hangs(), workers=2)
    assert verdicts(lab.probe([lab.prepared.case] * 2)) == [Verdict.SAME] * 2 and len(prober.rounds) == 1


def test_other_failures_are_kept_aside_with_their_smallest_case(make_lab):
    other = when(has("sin"), raises("no room"), when(has("exp"), dies(), TANH))
    lab, _ = make_lab(CASE, other)
    for names in (["cos", "sin"], ["sin"], ["sin", "tanh"], ["exp"], ["cos", "tanh"]):
        lab.probe([with_ops(CASE, names)])
    found = [(o.failure.message, [n.name for n in o.case.graph.ops], o.sightings) for o in lab.others]
    assert found == [("no room", ["sin"], 3), ("SIGSEGV", ["exp"], 1)]
    assert all(o.case.failure == o.failure for o in lab.others)
    assert lab.counts == {Verdict.OTHER: 4, Verdict.SAME: 1}


def test_other_failures_of_no_ops_and_of_the_passes_are_nobodys(make_lab):
    lab, _ = make_lab(CASE, lambda case: raises("no room"))
    lab.probe([with_ops(CASE, [])])
    lab.phase = "simplify"
    lab.probe([CASE])
    assert lab.others == [] and lab.counts == {Verdict.OTHER: 2}


def test_a_fault_of_the_tools_own_is_no_answer(make_lab):
    lab, _ = make_lab(CASE, lambda case: breaks())
    (judged,) = lab.probe([CASE])
    assert judged.verdict is Verdict.UNRESOLVED and lab.faults == [judged.fault]


def test_the_users_pattern_replaces_the_comparison_of_messages(make_lab):
    lab, _ = make_lab(CASE, lambda case: raises("out of registers: 12"), match="registers")
    assert verdicts(lab.probe([CASE])) == [Verdict.SAME]
    lab, _ = make_lab(CASE, lambda case: raises("out of registers: 12"))
    assert verdicts(lab.probe([CASE])) == [Verdict.OTHER]


def test_a_line_of_a_log_is_looked_for(make_lab):
    case = replace(CASE, failure=seen_failure(raises()))
    fingerprint = replace(case.failure.fingerprint, kind=Kind.SILENT_FALLBACK, types=(), message="falling back")
    case = replace(case, failure=replace(case.failure, fingerprint=fingerprint))
    for line, verdict in (("falling back for tanh", Verdict.SAME), ("compiled tanh", Verdict.PASS)):
        lab, _ = make_lab(case, lambda _, line=line: logs(line), match_log="falling back")
        assert verdicts(lab.probe([case])) == [verdict]


def test_a_graph_within_one_that_passed_contradicts_it(make_lab):
    lab, _ = make_lab(CASE, when(lambda case: has("tanh")(case) and not has("cos")(case), raises()))
    lab.phase = "delete"
    lab.probe([with_ops(CASE, ["cos", "tanh"])])
    assert lab.contradicts(ALONE["tanh"]) and not lab.contradicts(with_ops(CASE, ["tanh", "exp"]))


@pytest.mark.parametrize("phase", ["check", "bodies", "parts", "simplify"])
def test_what_passed_outside_the_search_contradicts_nothing(make_lab, phase):
    lab, _ = make_lab(CASE, lambda case: passes())
    lab.phase = phase
    lab.probe([CASE])
    assert not lab.contradicts(ALONE["tanh"])


def test_a_case_is_told_in_the_words_of_its_last_sighting(make_lab):
    def fault(case):
        return raises("no lowering", seconds=0.01) if len(case.graph.ops) > 1 else replace_traceback(raises())

    def replace_traceback(ended):
        return replace(ended, result={**ended.result, "traceback": "another place"})

    lab, _ = make_lab(CASE, fault)
    lab.probe([CASE])
    lab.probe([ALONE["tanh"]])
    assert as_sighted(lab, ALONE["tanh"]).failure.traceback == "another place"
    assert as_sighted(lab, CASE).failure.traceback == "RuntimeError: no lowering\n"
    assert as_sighted(lab, ALONE["cos"]) == ALONE["cos"], "nothing was seen there"
    assert as_sighted(lab, ALONE["tanh"]).failure.fingerprint == CASE.failure.fingerprint


def test_a_case_has_the_aspects_that_it_shows(make_lab):
    dtype = Difference(Aspect.DTYPE, "output 0", "output 0 is of type int8, in eager of uint8")
    values = Difference(Aspect.VALUES, "output 0", "output 0 differs")
    case = chain("cos", "tanh", failing=differs_by(values))
    lab, _ = make_lab(case, when(has("cos"), differs_by(values), differs_by(values, dtype)))
    alone = with_ops(case, ["tanh"])
    lab.probe([case])
    lab.probe([alone])
    assert as_sighted(lab, case).failure.fingerprint == case.failure.fingerprint
    failure = as_sighted(lab, alone).failure
    assert failure.fingerprint == replace(case.failure.fingerprint, aspects=("dtype", "values"))
    assert failure.message == f"{values.sentence}; {dtype.sentence}" and failure.differences == (dtype, values)


def test_how_long_a_probe_waited_is_not_told(make_lab):
    hang = chain("tanh", failing=hangs())
    lab, _ = make_lab(hang, lambda case: hangs())
    lab.probe([hang])
    assert as_sighted(lab, hang) == hang


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
def test_the_time_limit_is_ten_times_a_failing_run(make_lab, seconds, given, hang, limit):
    lab, _ = make_lab(chain("tanh", failing=hangs()) if hang else CASE, TANH, timeout=given)
    assert lab.limits.seconds == (given or 300.0)
    set_timeout(lab, seconds)
    assert lab.limits.seconds == limit


# What keeps probes from being made at once where nobody asked for a number of them.
ALONE_BECAUSE = {
    "they are quick": (CASE, {}, 0.4, True),
    "the user gave a number": (CASE, {}, 0.6, False),
    "memory is limited": (CASE, {"memory": 2**30}, 0.6, True),
    "a hang is sought": (chain("tanh", failing=hangs()), {}, 0.6, True),
    "a lack of memory is sought": (chain("tanh", failing=exhausts()), {}, 0.6, True),
}


@pytest.mark.parametrize("why", ALONE_BECAUSE)
def test_probes_are_made_one_by_one_where(make_lab, why):
    case, settings, seconds, may = ALONE_BECAUSE[why]
    lab, _ = make_lab(case, TANH, **settings)
    lab.may_spread = may
    set_workers(lab, seconds)
    assert lab.workers == 1


def test_slow_probes_are_made_at_once_as_far_as_memory_goes(make_lab, monkeypatch):
    for free, workers in ((2**40, 8), (3 * 2**31, 3), (2**20, 1)):
        monkeypatch.setattr("minifier.reduction.probe_conditions.cores", lambda: 8)
        monkeypatch.setattr("minifier.reduction.probe_conditions.room", lambda free=free: free)
        lab, _ = make_lab(CASE, TANH)
        lab.may_spread = True
        set_workers(lab, 0.6)
        assert lab.workers == workers


def test_probes_on_another_device_are_made_one_by_one(make_lab):
    (item,) = CASE.inputs
    lab, _ = make_lab(replace(CASE, inputs=(replace(item, meta=replace(item.meta, device="cuda:0")),)), TANH)
    lab.may_spread = True
    set_workers(lab, 60.0)
    assert lab.workers == 1


@pytest.mark.parametrize(("shown", "tries"), [(1, 2), (3, 4), (12, 24), (1, 24)])
def test_a_candidate_that_fails_as_often_is_missed_once_in_a_thousand_times(make_lab, shown, tries):
    lab, _ = make_lab(CASE, TANH)
    set_rate(lab, shown, tries)
    assert lab.rate == shown / tries
    assert miss_chance(lab, surely(shown, tries)) <= 0.001 < (1 - surely(shown, tries)) ** (lab.repeats - 1)
    lab.last_seconds = 1.1  # dear: once in a hundred, of the rate as it was met
    set_rate(lab, shown, tries)
    assert miss_chance(lab, shown / tries) <= 0.01 < (1 - shown / tries) ** (lab.repeats - 1)


def test_a_failure_of_every_try_is_tried_once(make_lab):
    lab, _ = make_lab(CASE, TANH)
    lab.repeats = 5
    set_rate(lab, 24, 24)
    assert (lab.rate, lab.repeats) == (1.0, 1)


def test_the_least_rate_is_the_lower_end_of_wilsons_interval():
    assert surely(24, 24) == pytest.approx(24 / (24 + 1.28**2))
    assert surely(12, 24) == pytest.approx(0.5 - 1.28 / (2 * math.sqrt(24 + 1.28**2)))
    assert surely(1, 24) < 1 / 24


def test_positions_are_written_as_ranges():
    assert ranges([7, 0, 1, 2, 3]) == "0-3,7" and ranges([]) == "" and ranges([4]) == "4"


def test_another_case_may_be_tried_beside_and_stay(make_lab):
    lab, _ = make_lab(CASE, TANH)
    lab.phase = "delete"
    lab.probe([ALONE["cos"]])
    other = chain("tanh", "cos")
    with lab.beside("parts", other):
        assert lab.prepared.case is other and lab.position == {"tanh": 0, "cos": 1}
        lab.probe([other])
    assert lab.prepared.case is CASE and lab.contradicts(ALONE["cos"]) and lab.sighted == {}
    with lab.beside("parts", other) as keep:
        lab.probe([other])
        keep()
    assert lab.prepared.case is other and list(lab.sighted) == ["0-1"]


def test_jobs_that_end_badly_give_nothing_and_their_faults_are_kept(make_lab):
    lab, _ = make_lab(CASE, TANH)
    answers = lab.run([lambda: {"status": "pass", "n": 1}, lambda: 1 // 0, lambda: {"n": 3}])
    assert answers == [{"status": "pass", "n": 1}, None, {"n": 3}]
    (fault,) = lab.faults
    assert "ZeroDivisionError" in fault


def test_jobs_run_a_few_at_once_and_as_long_as_a_probe_may(make_lab, monkeypatch):
    monkeypatch.setattr("minifier.reduction.probe_runner.cores", lambda: 2)
    rounds = []

    def run_jobs(jobs, limits, scratch):
        rounds.append((len(jobs), limits.seconds, scratch))
        return [ChildEnd(job(), 0.0) for job in jobs]

    lab, _ = make_lab(CASE, TANH, timeout=90.0)
    lab.run_jobs = run_jobs
    assert lab.run([lambda n=n: {"n": n} for n in range(9)]) == [{"n": n} for n in range(9)]
    assert rounds == [(4, 90.0, lab.scratch), (4, 90.0, lab.scratch), (1, 90.0, lab.scratch)]
