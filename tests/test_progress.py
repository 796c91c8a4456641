"""The pipe that progress comes through, and what is made of it."""

import os
import signal

import pytest
from clock import Clock, wait_until
from vocabulary import Lines

from minifier.errors import NoRepro
from minifier.process.forked_step import run_step
from minifier.process.interrupts import interrupted_afterwards
from minifier.process.progress import Phase, PhaseClock, Progress, ProgressPipe, Ui, run_displayed, run_for_result

ONE = Progress(Phase.REDUCING, step="prefix", size=41, probes=7)


@pytest.fixture
def channel():
    with ProgressPipe() as channel:
        yield channel


def test_what_is_sent_arrives_in_its_order(channel):
    assert channel.messages() == []
    channel.show(ONE)
    channel.say("two\nlines, \u00e9")
    assert channel.messages() == [ONE, "two\nlines, \u00e9"] and channel.messages() == []


def test_fields_that_are_unknown_or_missing(channel):
    os.write(channel._sender.file, b'{"progress": {"phase": "reducing", "colour": "green"}}\n')
    os.write(channel._sender.file, b'{"progress": {"phase": "reducing", "probes": 3}}\n')
    assert channel.messages() == [Progress(Phase.REDUCING, probes=3)]


class Recorder(Ui):
    def __init__(self) -> None:
        self.seen: list[object] = []

    def say(self, text):
        self.seen.append(text)

    def show(self, progress):
        self.seen.append(progress)


def test_what_a_child_sent_before_it_died_within_a_line(forked):
    recorder = Recorder()

    def work(channel):
        channel.show(ONE)
        channel.say("a word")
        os.write(channel._sender.file, b'{"line": "hal')
        os.kill(os.getpid(), signal.SIGTERM)
        return 0

    def displayed():
        end = run_displayed(work, recorder)
        return end.signal, recorder.seen

    assert forked(displayed) == (signal.SIGTERM, [ONE, "a word"])


@pytest.mark.parametrize(("kills", "ends"), [(2, (None, 2)), (9, (signal.SIGKILL, 2))])
def test_a_phase_that_a_stranger_kills_is_begun_again_twice(forked, tmp_path, kills, ends):
    recorder = Recorder()

    def work(channel):
        (tmp_path / str(os.getpid())).touch()
        if len(list(tmp_path.iterdir())) <= kills:
            os.kill(os.getpid(), signal.SIGKILL)
        return 0

    def displayed():
        end = run_displayed(work, recorder)
        return end.signal, sum("was killed (SIGKILL)" in said for said in recorder.seen)

    assert forked(displayed) == ends


def test_a_result_comes_back_from_a_phase_and_nothing_from_one_that_died(forked):
    def gives(_channel):
        return ONE

    def dies(_channel):
        os.kill(os.getpid(), signal.SIGTERM)

    def refuses(_channel):
        raise NoRepro("it passes")

    def results():
        given, died = (run_for_result(work, Recorder()) for work in (gives, dies))
        with pytest.raises(NoRepro, match="it passes"):
            run_for_result(refuses, Recorder())
        return given[0], given[1].status, died[0], died[1].described

    assert forked(results) == (ONE, 0, None, f"signal {int(signal.SIGTERM)}")


@pytest.mark.parametrize("ends_by_itself", [True, False])
def test_an_interrupt_is_answered_once_and_soon(forked, ends_by_itself):
    """A child that ends by itself is left alone; another gets the interrupt, and is waited for after the answer."""

    def displayed():
        clock, answers, pipe = Clock(), [], os.pipe()

        def work():
            try:
                os.kill(os.getppid(), signal.SIGINT)
                wait_until(lambda: ends_by_itself, "the interrupt")  # `signal.pause` misses one just before it
            except KeyboardInterrupt:
                return len(os.read(pipe[0], 1))
            return 5

        def now():
            if not ends_by_itself:
                clock.move(1.0)  # the time that a child has to end by itself
            return clock()

        def answer():
            answers.append("interrupted")
            os.write(pipe[1], b"!")

        end = run_step(work, interrupting=answer, now=now)
        return end.interrupted, end.status, answers

    assert forked(displayed) == (True, 5 if ends_by_itself else 1, ["interrupted"])


def test_an_answer_may_be_that_it_was_no_interrupt(forked):
    def answered():
        def work():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            os.kill(os.getppid(), signal.SIGINT)
            return len(os.read(pipe[0], 1))

        def answer():
            os.write(pipe[1], b"!")
            return True

        pipe = os.pipe()
        end = run_step(work, interrupting=answer)
        return end.interrupted, end.status

    assert forked(answered) == (False, 1)


def test_a_second_interrupt_ends_a_child_that_goes_on(forked):
    def interrupted():
        clock = Clock()

        def work():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            os.kill(os.getppid(), signal.SIGINT)
            while True:
                signal.pause()

        def now():
            clock.move(0.31)  # longer than one press takes to arrive twice
            return clock()

        end = run_step(work, interrupting=lambda: os.kill(os.getpid(), signal.SIGINT), now=now)
        return end.interrupted_again, end.signal

    assert forked(interrupted) == (True, signal.SIGKILL)


def test_an_interrupt_during_the_imports_is_raised_after_them():
    reached = []
    with pytest.raises(KeyboardInterrupt), interrupted_afterwards():
        os.kill(os.getpid(), signal.SIGINT)
        reached.append(signal.getsignal(signal.SIGINT))
    assert len(reached) == 1 and signal.getsignal(signal.SIGINT) is not reached[0]
    with interrupted_afterwards():
        pass


# The seconds of a run's phases.


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
