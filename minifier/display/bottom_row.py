"""A status line in the terminal's last row; all other output scrolls in the rows above."""

from __future__ import annotations

import os

from rich.cells import cell_len, set_cell_size
from rich.console import Console as RichConsole

_MIN_ROWS, _MIN_COLUMNS = 4, 20  # a smaller terminal gets no status line
_SAVE, _RESTORE = "\x1b7", "\x1b8"  # the cursor and its colours
_ROOM_BELOW = "\x1bD\x1b[A"  # one row down, which scrolls at the bottom, and up again in the same column
_ERASE_BELOW = "\x1b[0m\x1bE\x1b[J"  # from the next row on
_WHOLE_SCREEN = "\x1b[r"


class BottomRow:
    """Draws a line in the last row, which is taken out of what scrolls.

    The cursor stays where it was, so that other processes may write to the terminal at any time.
    """

    def __init__(self, console: RichConsole) -> None:
        self._console = console
        self._size: os.terminal_size | None = None  # of the terminal when its last row was taken out
        self._drawn = ""

    def draw(self, left: str, right: str) -> bool:
        """Replace the row by `left`, cut where the terminal is too narrow, and `right` at its edge.

        Return False, without a row, in a terminal that is too small or does not tell its size.
        """
        size = self.size()
        if size.lines < _MIN_ROWS or size.columns < _MIN_COLUMNS:
            self.remove()
            return False
        width = size.columns - cell_len(right) - 2  # a space between, and the last column, which would wrap
        text = set_cell_size(left if cell_len(left) <= width else f"{set_cell_size(left, width - 1)}…", width)
        line = f"{text} {right}"
        if size != self._size:
            self.remove()
        elif line == self._drawn:
            return True
        scrolling = "" if size == self._size else f"{_ROOM_BELOW}{_SAVE}\x1b[1;{size.lines - 1}r{_RESTORE}"
        self._size, self._drawn = size, line
        self._write(f"{scrolling}{_SAVE}\x1b[{size.lines};1H\x1b[0m\x1b[2K{line}{_RESTORE}")
        return True

    def remove(self) -> None:
        """Erase the row, if drawn, and let the whole screen scroll again.

        The terminal may have a new size, and may have moved or wrapped the row: all rows below the cursor are erased.
        """
        if self._size is not None:
            self._size, self._drawn = None, ""
            self._write(f"{_SAVE}{_WHOLE_SCREEN}{_RESTORE}{_ROOM_BELOW}{_SAVE}{_ERASE_BELOW}{_RESTORE}")

    def _write(self, text: str) -> None:
        """Write in one piece: output of other processes comes before or after."""
        self._console.file.write(text)
        self._console.file.flush()

    def size(self) -> os.terminal_size:
        """Return the terminal's current size; the environment's COLUMNS may be outdated. Zeros: it tells none."""
        try:
            return os.get_terminal_size(self._console.file.fileno())
        except OSError:  # a text in memory, no terminal
            return os.terminal_size((self._console.width, self._console.height))
