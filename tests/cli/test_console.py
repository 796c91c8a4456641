"""The console on a terminal in memory, and in a pipe, at given times."""

import io

import pyte
import pytest
from rich.console import Console as RichConsole
from screens import rows_of

from minifier.cli.console import Console, StatusLine
from minifier.process.progress import Phase, Progress

REDUCING = Progress(Phase.REDUCING, step="prefix", size=41, probes=7)


class Seen:
    """A console that writes to a text in memory, whose clock is `now`."""

    def __init__(self, terminal: bool, columns: int = 60, **options: bool) -> None:
        self.now, self.columns = 0.0, columns
        self._text = io.StringIO()
        to = RichConsole(
            file=self._text, force_terminal=terminal, width=columns, color_system=None, _environ={"TERM": "xterm"}
        )
        self.console = Console(**options, to=to, clock=lambda: self.now)

    @property
    def text(self) -> str:
        return self._text.getvalue()

    @property
    def rows(self) -> list[str]:
        screen = pyte.Screen(self.columns, 10)
        pyte.Stream(screen).feed(self.text.replace("\n", "\r\n"))  # as a terminal's driver does
        return rows_of(screen)

    def after(self, seconds: float) -> list[str]:
        self.now += seconds
        self.console.tick()
        return self.rows


def test_a_line_stands_above_the_status_line():
    seen = Seen(terminal=True)
    seen.console.show(REDUCING)
    assert seen.rows == ["minify: reducing: 41 ops left, 7 probes (prefix)"]
    assert seen.after(2) == ["minify: reducing: 41 ops left, 7 probes, 2 s (prefix)"]
    seen.console.say("something happened")
    assert seen.rows == ["minify: something happened"]
    seen.console.show(Progress(Phase.REDUCING, step="prove", size=1, probes=8, to_prove=1, seconds_to_prove=0.6))
    assert seen.after(1)[1:] == ["minify: reducing: 1 op left, 8 probes, 3 s (prove: at mos"]
    with seen.console:
        pass
    assert seen.rows == ["minify: something happened"]


def test_a_status_line_does_not_outlive_an_exception():
    seen = Seen(terminal=True)
    with pytest.raises(KeyboardInterrupt), seen.console:
        seen.console.show(REDUCING)
        raise KeyboardInterrupt
    assert seen.rows == []


@pytest.mark.parametrize("phase", [Phase.SCRIPT, Phase.REPLAY])
def test_nothing_is_drawn_while_code_of_the_user_may_write(phase):
    seen = Seen(terminal=True, columns=100)
    seen.console.show(Progress(Phase.LOADING))
    seen.console.show(Progress(phase, subject="it"))
    said = [f"minify: {phase.value} it"]
    assert seen.after(100) == said
    seen.console.show(REDUCING)
    seen.console.tick()
    seen.console.show(Progress(Phase.REDUCING))  # another reduction, which imports the backend
    assert seen.rows == said
    assert seen.after(100) == said


def test_a_new_reduction_counts_its_own_seconds():
    seen = Seen(terminal=True)
    seen.console.show(REDUCING)
    seen.after(50)
    seen.console.show(Progress(Phase.REDUCING, step="check", size=3, probes=1))
    assert seen.after(2) == ["minify: reducing: 3 ops left, 1 probe, 2 s (check)"]


def test_a_wide_line_is_cut_and_a_wide_character_counted():
    text = io.StringIO()
    line = StatusLine(RichConsole(file=text, force_terminal=True, width=20, _environ={"TERM": "xterm"}))
    line.draw("\u5b57" * 20)
    assert text.getvalue() == "\u5b57" * 8 + " "
    line.draw("short")
    line.draw("short")
    line.clear()
    line.clear()
    assert text.getvalue().partition(" ")[2] == "\r\x1b[2Kshort\r\x1b[2K"


def test_a_pipe_has_a_line_for_each_phase_and_one_every_ten_seconds():
    seen = Seen(terminal=False)
    seen.console.show(REDUCING)
    for _ in range(45):
        seen.after(0.5)
    seen.console.show(Progress(Phase.VERIFYING, run=1, runs=3))
    seen.after(9)
    seen.console.show(Progress(Phase.VERIFYING, run=2, runs=3))
    seen.after(9)
    assert seen.text.splitlines() == [
        "minify: reducing",
        "minify: reducing: 41 ops left, 7 probes, 10 s (prefix)",
        "minify: reducing: 41 ops left, 7 probes, 20 s (prefix)",
        "minify: verifying the repro",
        "minify: verifying the repro: interpreter 2 of 3, 18 s",
    ]


def test_every_line_counts_against_the_silence():
    seen = Seen(terminal=False)
    seen.console.show(Progress(Phase.REPORTS))
    seen.after(9)
    seen.console.say("something happened")
    seen.after(9)
    assert seen.text == "minify: writing the reports\nminify: something happened\n"


def test_each_probe_has_its_line_when_that_is_wanted():
    seen = Seen(terminal=False, verbose=True)
    for number in (1, 2):
        seen.console.show(Progress(Phase.REDUCING, probes=number, probe="check, 1 op: SAME in 0.01 s"))
    assert seen.text.splitlines() == [
        "minify: reducing",
        "minify: probe 1: check, 1 op: SAME in 0.01 s",
        "minify: probe 2: check, 1 op: SAME in 0.01 s",
    ]


@pytest.mark.parametrize("terminal", [True, False])
def test_a_quiet_one_says_errors_alone(terminal):
    seen = Seen(terminal, quiet=True, verbose=True)
    seen.console.show(Progress(Phase.SCRIPT, subject="it"))
    seen.console.show(REDUCING)
    seen.after(100)
    seen.console.say("something happened")
    seen.console.error("it failed")
    assert seen.text == "minify: it failed\n"


def test_lines_are_written_whole_and_as_they_are():
    seen = Seen(terminal=False, columns=20)
    seen.console.say("[bold]not markup[/bold] :smile: " + "long " * 20)
    assert seen.text == "minify: [bold]not markup[/bold] :smile: " + "long " * 20 + "\n"
