"""Errors that end a step of a run: what the run had reached stays."""

from dataclasses import replace

import pytest
from case_samples import small_case

from minifier.case import Level
from minifier.case.run_folder import RunFolder
from minifier.case.store import ATEN, load, save
from minifier.errors import MachineFailed, NoRepro, NothingToReduce, StoppedAtOnce, StoppedEarly, ToolFailed
from minifier.settings import Settings
from minifier.workflow import fallbacks
from minifier.workflow.attempt import Attempt, Reduced, Run
from minifier.workflow.fallbacks import Fallback, Step, fall_back
from minifier.workflow.reduction import reduce_changed

pytestmark = pytest.mark.timeout(60)

CASE = replace(small_case(), level=Level.DYNAMO)


@pytest.fixture
def attempt(tmp_path):
    folder = RunFolder(tmp_path / "out")
    save(CASE, folder.case)
    save(replace(CASE, level=Level.AOT_FORWARD), folder.aten)
    return Attempt(Run(Settings()), folder, load(folder.case))


def through_dynamo(case):
    return replace(case, through_dynamo=True)


@pytest.mark.parametrize(
    "error", [StoppedEarly, StoppedAtOnce, NothingToReduce, MachineFailed, ToolFailed, KeyboardInterrupt, TypeError]
)
def test_a_case_that_was_changed_for_an_attempt_is_restored_after_any_error(attempt, error):
    def reducing(changed):
        assert changed.case.through_dynamo and load(changed.folder.aten).through_dynamo
        raise error("in the middle of it")

    with pytest.raises(error):
        reduce_changed(attempt, through_dynamo, "changed", (ATEN,), reducing)
    assert not load(attempt.folder.case).through_dynamo and not load(attempt.folder.aten).through_dynamo


def test_a_changed_case_stays_if_it_could_be_reduced(attempt):
    def failing(changed):
        return changed.failed(NoRepro("it showed no failure"))

    def succeeding(changed):
        return changed.succeeded(Reduced(None, changed.case, (changed.case,)))

    assert reduce_changed(attempt, through_dynamo, "changed", (), failing) is attempt
    assert not load(attempt.folder.case).through_dynamo
    assert reduce_changed(attempt, through_dynamo, "changed", (), succeeding).case.through_dynamo
    assert load(attempt.folder.case).through_dynamo


def test_a_fallback_that_ends_in_another_error_was_tried_and_not_taken(attempt, monkeypatch):
    vain = Fallback("vain", Step.END, lambda *_: True, lambda state, _: state.failed(NoRepro("b")), lambda _: "")
    monkeypatch.setattr(fallbacks, "FALLBACKS", (vain,))
    after = fall_back(attempt.failed(NoRepro("a")), Step.END, Run(Settings()))
    assert (after.reason, after.fallbacks) == ("b", ())
