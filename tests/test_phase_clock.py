"""The seconds of a run's phases."""

import pytest
from vocabulary import Lines

from minifier.process import phase_clock
from minifier.process.phase_clock import PhaseClock
from minifier.process.progress import Phase, Progress


@pytest.fixture
def now(monkeypatch):
    """The time, which passes as it is told to."""
    time = [100.0]
    monkeypatch.setattr(phase_clock.time, "monotonic", lambda: time[0])

    def passes(seconds):
        time[0] += seconds

    return passes


def test_the_phases_add_up_to_the_total(now):
    clock = PhaseClock()
    now(1)
    for phase, seconds in ((Phase.LOADING, 2), (Phase.SCRIPT, 3), (Phase.SCRIPT, 4), (Phase.LOADING, 5)):
        clock.show(Progress(phase))
        now(seconds)
    assert clock.seconds() == {"loading": 8.0, "script": 7.0} and clock.total == 15.0
    now(1)
    assert clock.seconds() == {"loading": 9.0, "script": 7.0} and clock.total == 16.0


def test_a_clock_that_begins_anew_has_no_phase(now):
    clock = PhaseClock()
    clock.show(Progress(Phase.SCRIPT))
    now(1)
    clock.restart()
    assert clock.seconds() == {} and clock.total == 0.0
    now(2)
    clock.show(Progress(Phase.REDUCING))
    assert clock.seconds() == {"reducing": 2.0}


def test_all_is_handed_on():
    ui = Lines()
    clock = PhaseClock(ui)
    clock.say("a line")
    clock.detail("a detail")
    assert (ui.lines, ui.details) == (["a line"], ["a detail"]) and clock.ask("?") is False
