"""The pipe that progress comes through, and what is made of it."""

import os
import signal

import pytest
from clock import Clock

from minifier.errors import NoRepro
from minifier.process.forked_step import run_step
from minifier.process.interrupts import interrupted_afterwards
from minifier.process.progress import Phase, Progress, ProgressPipe, Ui, counted, run_displayed, run_for_result

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


def test_a_part_of_a_line_waits_for_the_rest(channel):
    os.write(channel._sender.file, b'{"line": "on')
    assert channel.messages() == []
    os.write(channel._sender.file, b'e"}\n{"line": "tw')
    assert channel.messages() == ["one"]


def test_fields_that_are_unknown_or_missing(channel):
    os.write(channel._sender.file, b'{"progress": {"phase": "reducing", "probes": 3, "colour": "green"}}\n')
    assert channel.messages() == [Progress(Phase.REDUCING, probes=3)]


@pytest.mark.parametrize(
    "line", [b"", b"what a backend prints", b"[1]", b"3", b'{"progress": {"phase": "?"}}', b"{}", b'{"progress": 3}']
)
def test_what_the_users_code_writes_into_the_pipe_is_passed_over(channel, line):
    os.write(channel._sender.file, line + b"\n")
    channel.show(ONE)
    assert channel.messages() == [ONE]


def test_a_backend_may_close_every_file_and_open_its_own(channel, tmp_path):
    number = channel._sender.file
    own = os.open(tmp_path / "own", os.O_WRONLY | os.O_CREAT)
    spare = os.dup(number)
    os.close(number)
    channel.show(ONE)
    os.dup2(own, number)
    channel.show(ONE)
    assert (tmp_path / "own").read_bytes() == b"" and channel.messages() == []
    os.dup2(spare, number)
    channel.show(ONE)
    assert channel.messages() == [ONE]
    os.close(own)
    os.close(spare)


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


def test_a_dataclass_comes_back_from_a_phase_and_nothing_from_one_that_died(forked):
    def gives(_channel):
        return ONE

    def dies(_channel):
        os.kill(os.getpid(), signal.SIGTERM)

    def refuses(_channel):
        raise NoRepro("it passes")

    def results():
        given, died = (run_for_result(Progress, work, Recorder()) for work in (gives, dies))
        with pytest.raises(NoRepro, match="it passes"):
            run_for_result(Progress, refuses, Recorder())
        return given[0], given[1].status, died[0], died[1].described

    assert forked(results) == (ONE, 0, None, f"signal {int(signal.SIGTERM)}")


def test_more_than_the_pipe_holds_arrives(forked):
    recorder = Recorder()

    def work(channel):
        for number in range(1000):
            channel.show(Progress(Phase.REDUCING, probes=number, step="x" * 200))
        return 0

    def displayed():
        end = run_displayed(work, recorder)
        return end.status, [progress.probes for progress in recorder.seen]

    assert forked(displayed) == (0, list(range(1000)))


@pytest.mark.parametrize("ends_by_itself", [True, False])
def test_an_interrupt_is_answered_once_and_soon(forked, ends_by_itself):
    """A child that ends by itself is left alone; another gets the interrupt, and is waited for after the answer."""

    def displayed():
        clock, answers, pipe = Clock(), [], os.pipe()

        def work():
            try:
                os.kill(os.getppid(), signal.SIGINT)
                if not ends_by_itself:
                    signal.pause()
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


@pytest.mark.parametrize("number, words", [(0, "0 ops"), (1, "1 op"), (2, "2 ops")])
def test_counted(number, words):
    assert counted(number, "op") == words


def test_an_interrupt_during_the_imports_is_raised_after_them():
    reached = []
    with pytest.raises(KeyboardInterrupt), interrupted_afterwards():
        os.kill(os.getpid(), signal.SIGINT)
        reached.append(signal.getsignal(signal.SIGINT))
    assert len(reached) == 1 and signal.getsignal(signal.SIGINT) is not reached[0]
    with interrupted_afterwards():
        pass
