"""The console on a terminal in memory, and in a pipe, at given times."""

import io

import pyte
import pytest
from rich.console import Console as RichConsole
from screens import rows_of

from minifier.display.bottom_row import BottomRow
from minifier.display.console import Console
from minifier.process.progress import Phase, Progress

REDUCING = Progress(Phase.REDUCING, step="prefix", size=41, probes=7)


class Seen:
    """A console that writes to a text in memory, whose clock is `now`."""

    def __init__(self, terminal: bool, columns: int = 60, **options: bool) -> None:
        self.now, self.columns = 0.0, columns
        self._text = io.StringIO()
        self._to = RichConsole(
            file=self._text,
            force_terminal=terminal,
            width=columns,
            height=10,
            color_system=None,
            _environ={"TERM": "xterm"},
        )
        self.console = Console(**options, to=self._to, clock=lambda: self.now)
        self._screen = pyte.Screen(columns, 10)
        self._stream, self._fed = pyte.Stream(self._screen), 0

    @property
    def text(self) -> str:
        return self._text.getvalue()

    def write(self, text: str) -> None:
        """Writes to the terminal, as the script does."""
        self._text.write(text)

    @property
    def rows(self) -> list[str]:
        self._stream.feed(self.text[self._fed :].replace("\n", "\r\n"))  # as a terminal's driver does
        self._fed = len(self.text)
        return rows_of(self._screen)

    def resize(self, lines: int, columns: int) -> None:
        """Gives the terminal another size, with what it shows."""
        assert self.rows is not None  # it has taken in what was written
        self._screen.resize(lines, columns)
        self._to.size = (columns, lines)

    def after(self, seconds: float) -> list[str]:
        self.now += seconds
        self.console.tick()
        return self.rows


def status(text: str, seconds: int, columns: int = 60) -> str:
    """The last row of a terminal of so many columns."""
    right = f" {seconds} s"
    return f"minify: {text}".ljust(columns - 1 - len(right)) + right


def test_the_status_line_has_the_last_row_and_lines_scroll_above():
    seen = Seen(terminal=True)
    seen.console.show(REDUCING)
    assert seen.rows == [""] * 9 + [status("reducing: 41 ops left, 7 probes (prefix)", 0)]
    assert seen.after(2)[-1] == status("reducing: 41 ops left, 7 probes (prefix)", 2)
    for number in range(12):
        seen.console.say(f"line {number}")
    rows = [f"minify: line {number}" for number in range(4, 12)]
    assert seen.rows == [*rows, "", status("reducing: 41 ops left, 7 probes (prefix)", 2)]
    seen.console.show(Progress(Phase.REDUCING, step="prove", size=1, probes=8, to_prove=1, seconds_to_prove=0.6))
    assert seen.after(1)[-1] == "minify: reducing: 1 op left, 8 probes (prove: at most … 3 s"
    with seen.console:
        pass
    assert seen.rows == rows


def test_a_status_line_does_not_outlive_an_exception():
    seen = Seen(terminal=True)
    with pytest.raises(KeyboardInterrupt), seen.console:
        seen.console.show(REDUCING)
        raise KeyboardInterrupt
    assert seen.rows == []


def test_a_line_that_the_script_has_not_ended_stays_one_line():
    seen = Seen(terminal=True)
    seen.write("one\n" * 9 + "step 1, ")  # in the last row, which the status line takes
    seen.console.show(Progress(Phase.SCRIPT, subject="train.py"))
    seen.write("loss 2")
    assert seen.rows == [*["one"] * 8, "step 1, loss 2", status("running train.py", 0)]


def test_a_new_run_and_a_new_reduction_count_their_own_seconds():
    seen = Seen(terminal=True)
    seen.console.show(REDUCING)
    seen.after(50)
    seen.console.show(Progress(Phase.REDUCING, step="check", size=3, probes=1))
    assert seen.after(2)[-1] == status("reducing: 3 ops left, 1 probe (check)", 2)
    seen.console.show(Progress(Phase.SCRIPT, subject="a.py"))
    seen.after(50)
    seen.console.show(Progress(Phase.SCRIPT, subject="a.py again, in eager mode"))
    assert seen.after(3)[-1] == status("running a.py again, in eager mode", 3)


@pytest.mark.parametrize("lines", [3, 4])
def test_a_wide_line_is_cut_and_a_wide_character_counted(lines):
    text = io.StringIO()
    to = RichConsole(file=text, force_terminal=True, width=20, height=lines, _environ={"TERM": "xterm"})
    row = BottomRow(to)
    row.draw("\u5b57" * 20, "1 s")
    row.draw("\u5b57" * 20, "1 s")
    assert row.draw("\u5b57" * 20, "1 s") is (lines == 4)
    drawn = "\x1bD\x1b[A\x1b7\x1b[1;3r\x1b8\x1b7\x1b[4;1H\x1b[0m\x1b[2K" + "\u5b57" * 7 + "… 1 s\x1b8"
    assert text.getvalue() == (drawn if lines == 4 else "")
    row.remove()
    row.remove()
    removed = "\x1b7\x1b[r\x1b8\x1bD\x1b[A\x1b7\x1b[0m\x1bE\x1b[J\x1b8"
    assert text.getvalue() == (drawn + removed if lines == 4 else "")


@pytest.mark.parametrize(("lines", "columns"), [(6, 60), (14, 60), (10, 30), (10, 90), (3, 60), (10, 12)])
def test_a_terminal_that_changes_its_size_shows_one_status_line_or_none(lines, columns):
    seen = Seen(terminal=True)
    seen.console.show(REDUCING)
    seen.write("the script's\n" * 4)
    seen.resize(lines, columns)
    seen.console.tick()
    seen.write("the script's\n" * 2)
    fits = lines >= 4 and columns >= 20
    shown = [row for row in seen.rows if row.startswith("minify:")]
    assert shown == seen.rows[lines - 1 :] and len(shown) == fits
    assert seen.rows.count("the script's"[:columns]) >= 2
    seen.resize(10, 60)
    assert seen.after(1)[9] == status("reducing: 41 ops left, 7 probes (prefix)", 1)


def test_a_terminal_that_is_too_low_gets_lines_as_a_pipe_does():
    seen = Seen(terminal=True)
    seen.resize(3, 60)
    seen.console.show(REDUCING)
    seen.after(10)
    assert seen.rows == ["minify: reducing", "minify: reducing: 41 ops left, 7 probes, 10 s (prefix)"]


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
