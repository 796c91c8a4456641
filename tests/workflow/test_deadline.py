"""A run ends in time: each phase after the script gets what is left, by a clock that the test moves."""

from dataclasses import replace

import pytest
from clock import Clock
from failing_cases import CASES
from vocabulary import Lines

from minifier.data.case.run_folder import RunFolder
from minifier.data.failure import Verdict
from minifier.data.settings import Settings
from minifier.errors import NoRepro
from minifier.flow import explain
from minifier.flow.attempt import Attempt, ReproResult, Run
from minifier.flow.reduce_in_child import limited
from minifier.flow.repro_search import ReproSearch, search_for
from minifier.process.progress import PhaseClock
from minifier.reduction.probe.children import ChildEnd
from minifier.reduction.probe.prepared_case import PreparedCase
from minifier.reduction.probe_runner import ProbeRunner
from minifier.reduction.summary import Summary
from minifier.repro.emit.forms import Template
from minifier.repro.emit.repro import Repro
from minifier.repro.verify import ScriptRun, Verification
from minifier.torch_side.fx.tensors import StoredTensors

pytestmark = pytest.mark.timeout(60)

CASE = CASES["exception"]
BEGUN = 1000.0  # as the clock begins
SUMMARY = Summary(3, 1, 1, 1, {"total": 5}, True, "", 100.0)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def settings(clock):
    """Those of a run whose script took 20 s: it ends 380 s after its beginning."""
    return Settings(now=clock).for_run(20.0, BEGUN)


@pytest.fixture
def attempt(tmp_path, settings):
    folder = RunFolder(tmp_path / "out")
    folder.path.mkdir()
    return Attempt(Run(settings, PhaseClock(Lines())), folder, CASE, error=NoRepro("the backend took it"))


def test_a_reduction_gets_a_share_of_what_is_left(clock, settings):
    assert settings.seconds_left == 380 and settings.seconds_for(20.0) == pytest.approx(0.7 * 380)
    assert replace(settings, deadline=None).seconds_for(20.0) == 380
    clock.move(280)
    assert settings.seconds_for(20.0) == pytest.approx(70) and settings.flaky_seconds_for(20.0) == pytest.approx(35)
    clock.move(200)
    assert settings.seconds_left == 0 and 0 < settings.seconds_for(20.0) < 20


def test_a_budget_of_the_users_is_for_the_reduction_alone(clock):
    clock.move(50)
    settings = Settings(now=clock, budget=700.0).for_run(20.0, BEGUN)
    assert settings.seconds_for(20.0) == pytest.approx(700) and settings.seconds_left == pytest.approx(1000)
    assert Settings(now=clock, budget=7.0).for_run(20.0, BEGUN).seconds_left == 330


def test_what_is_left_of_the_limits_for_a_second_reduction():
    done = Summary(9, 1, 1, 1, {"total": 30}, True, "", 40.0)
    assert limited(Settings(), done) == Settings()
    assert limited(Settings(budget=100.0, max_probes=100), done) == Settings(budget=60.0, max_probes=70)
    assert limited(Settings(budget=30.0, max_probes=31), done) == Settings(budget=1.0, max_probes=16)
    assert limited(Settings(), replace(done, stopped_because="interrupted")).max_probes == 16


def test_a_probe_that_hangs_ends_soon_after_the_deadline(clock, settings, tmp_path):
    class Hangs:
        slots = 1

        def probe(self, cases, _until, limits):
            clock.move(limits.seconds)
            return [ChildEnd(None, limits.seconds, timed_out=True) for _ in cases]

    prepared = PreparedCase(CASE, StoredTensors(None))
    runner = ProbeRunner(prepared, tmp_path, settings, make_prober=lambda *_: Hangs())
    while settings.seconds_left:
        (judged,) = runner.probe([CASE])
        assert judged.verdict is Verdict.UNRESOLVED
    assert clock() - BEGUN <= 380 + 10
    runner.journal.close(finished=True)


@pytest.fixture
def verifying(clock, monkeypatch):
    """The limits of the interpreters that a verification has started; each hangs until its limit."""
    limits = []

    def verified(search, _repro, _variables, runs, _control=None):
        limits.append(seconds := search.seconds_for_script)
        clock.move(seconds)
        return Verification((ScriptRun(None, None, "", seconds),) * runs, 0, seconds)

    monkeypatch.setattr(ReproSearch, "verified", verified)
    return limits


def test_a_verification_that_hangs_ends_with_the_time(clock, attempt, verifying):
    slow = replace(attempt, case=replace(CASE, script=replace(CASE.script, seconds=20.0)))
    clock.move(150)
    search_for(slow, CASE).search()
    assert verifying == [200, 60] and clock() - BEGUN <= 380 + 60
    assert search_for(slow, CASE).search().reason.startswith("the time of the run is used up")


def test_one_repro_is_verified_even_without_time(clock, attempt, verifying):
    clock.move(500)
    search_for(attempt, CASE).search()
    assert len(verifying) == 1


@pytest.mark.parametrize(("spent", "left"), [(0, 50), (340, 40), (400, None)])
def test_an_explanation_gets_half_of_the_reductions_time_and_no_more_than_is_left(
    clock, attempt, monkeypatch, spent, left
):
    given = []

    def explained(_case, _settings, seconds, *_more):
        given.append(seconds)
        raise NoRepro("enough")

    monkeypatch.setattr(explain, "explain", explained)
    monkeypatch.setattr(explain, "in_child", lambda _attempt, _out, work, *_more: work(PhaseClock(Lines())))
    result = ReproResult(CASE, Repro("import torch\n", Template.COMPILE_FUNCTION))
    clock.move(spent)
    assert explain.with_explanation(replace(attempt, repro_result=result, error=None), SUMMARY) == SUMMARY
    assert given == ([] if left is None else [left])
