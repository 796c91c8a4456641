"""The seconds of a run's phases."""

from clock import Clock
from vocabulary import Lines

from minifier.process.progress import Phase, PhaseClock, Progress


def test_the_phases_add_up_to_the_total():
    now = Clock()
    clock = PhaseClock(now=now)
    now.move(1)
    for phase, seconds in ((Phase.LOADING, 2), (Phase.SCRIPT, 3), (Phase.SCRIPT, 4), (Phase.LOADING, 5)):
        clock.show(Progress(phase))
        now.move(seconds)
    assert clock.seconds() == {"loading": 8.0, "script": 7.0} and clock.total == 15.0
    now.move(1)
    assert clock.seconds() == {"loading": 9.0, "script": 7.0} and clock.total == 16.0


def test_a_clock_that_begins_anew_has_no_phase():
    now = Clock()
    clock = PhaseClock(now=now)
    clock.show(Progress(Phase.SCRIPT))
    now.move(1)
    clock.restart()
    assert clock.seconds() == {} and clock.total == 0.0
    now.move(2)
    clock.show(Progress(Phase.REDUCING))
    assert clock.seconds() == {"reducing": 2.0}


def test_all_is_handed_on():
    ui = Lines()
    clock = PhaseClock(ui)
    clock.say("a line")
    clock.detail("a detail")
    assert (ui.lines, ui.details) == (["a line"], ["a detail"]) and clock.ask("?") is False
