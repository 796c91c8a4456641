"""The console on a terminal in memory, and in a pipe, at given times."""

import io

import pyte
import pytest
from rich.console import Console as RichConsole
from screens import rows_of

from minifier.flow.cli.console import BottomRow, Console
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


def is_status(row: str, *words: str, seconds: int, columns: int = 60) -> bool:
    """Whether the row is a status line that fills it, ends in the seconds and has the words."""
    return len(row) == columns - 1 and row.endswith(f" {seconds} s") and all(word in row for word in words)


def test_the_status_line_has_the_last_row_and_lines_scroll_above():
    seen = Seen(terminal=True)
    seen.console.show(REDUCING)
    assert seen.rows[:9] == [""] * 9 and is_status(seen.rows[9], "41", "7", "prefix", seconds=0)
    assert is_status(seen.after(2)[-1], "41", seconds=2)
    for number in range(12):
        seen.console.say(f"line {number}")
    rows = [f"minify: line {number}" for number in range(4, 12)]
    assert seen.rows[:-2] == rows and is_status(seen.rows[-1], "41", seconds=2)
    seen.console.show(Progress(Phase.REDUCING, step="prove", size=1, probes=8, to_prove=1, seconds_to_prove=0.6))
    assert is_status(seen.after(1)[-1], "prove", "…", seconds=3)
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
    assert seen.rows[:9] == [*["one"] * 8, "step 1, loss 2"] and is_status(seen.rows[9], "train.py", seconds=0)


def test_a_new_run_and_a_new_reduction_count_their_own_seconds():
    seen = Seen(terminal=True)
    for phase in (
        REDUCING,
        Progress(Phase.REDUCING, step="check", size=3, probes=1),
        Progress(Phase.SCRIPT, subject="a.py"),
        Progress(Phase.SCRIPT, subject="a.py again, in eager mode"),
    ):
        seen.console.show(phase)
        assert is_status(seen.after(50)[-1], phase.subject or str(phase.size), seconds=50)


@pytest.mark.parametrize("lines", [3, 4])
def test_a_wide_line_is_cut_and_a_wide_character_counted(lines):
    text = io.StringIO()
    to = RichConsole(file=text, force_terminal=True, width=20, height=lines, _environ={"TERM": "xterm"})
    row = BottomRow(to)
    row.draw("\u5b57" * 20, "1 s")
    drawn = text.getvalue()
    assert row.draw("\u5b57" * 20, "1 s") is (lines == 4)
    assert text.getvalue() == drawn and drawn.count("\u5b57") == (7 if lines == 4 else 0)
    row.remove()
    removed = text.getvalue()
    row.remove()
    assert text.getvalue() == removed and (removed == drawn) is (lines == 3)


@pytest.mark.parametrize(("lines", "columns"), [(6, 60), (14, 60), (10, 30), (10, 90), (3, 60), (10, 12)])
def test_a_terminal_that_changes_its_size_shows_one_status_line_or_none(lines, columns):
    seen = Seen(terminal=True)
    seen.console.show(REDUCING)
    seen.write("the script's\n" * 4)
    seen.resize(lines, columns)
    seen.console.tick()
    seen.write("the script's\n" * 2)
    shown = [row for row in seen.rows if row.startswith("minify:")]
    assert shown == seen.rows[lines - 1 :] and len(shown) == (lines >= 4 and columns >= 20)
    assert seen.rows.count("the script's"[:columns]) >= 2
    seen.resize(10, 60)
    assert is_status(seen.after(1)[9], "41", seconds=1)


def test_what_is_no_terminal_has_a_line_for_each_phase_and_others_after_longer_and_longer_pauses():
    for seen in (Seen(terminal=False), Seen(terminal=True)):
        seen.resize(3, 60)  # a terminal that is too low
        seen.console.show(REDUCING)
        for _ in range(61):
            seen.after(0.5)
        seen.console.show(Progress(Phase.REPORTS))
        seen.after(9)
        seen.console.say("something happened")
        seen.after(9)
        first, *later, reports, line = seen.text.splitlines()
        assert ["41" in row for row in (first, *later)] == [False, True, True] and "reports" in reports
        assert ["10 s" in later[0], "30 s" in later[1]] == [True, True] and line == "minify: something happened"


def test_each_probe_has_its_line_when_that_is_wanted():
    seen = Seen(terminal=False, verbose=True)
    for number in (1, 2):
        seen.console.show(Progress(Phase.REDUCING, probes=number, probe="check, 1 op: SAME in 0.01 s"))
    assert [line.endswith("SAME in 0.01 s") for line in seen.text.splitlines()] == [False, True, True]


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
