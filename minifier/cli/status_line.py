"""The line at the bottom of a terminal that shows what goes on, and is drawn over."""

from __future__ import annotations

import os

from rich.console import Console
from rich.control import Control
from rich.segment import ControlType
from rich.text import Text

_MARGIN = 3  # columns that stay free: the terminal's echo of Ctrl-C must not wrap to the next row
_ERASE = Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2))


class StatusLine:
    """Draws one row at the cursor, and erases it again before anything else is written."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._drawn = ""

    def draw(self, text: str) -> None:
        """Draw this text in place of the last; what is wider than the terminal now is cut off."""
        line = Text(text)
        line.truncate(self._columns() - _MARGIN)
        if line.plain == self._drawn:
            return
        self.clear()
        self._drawn = line.plain
        self._console.print(line, end="", soft_wrap=True)
        self._console.file.flush()

    def clear(self) -> None:
        """Erase the row, if it is drawn."""
        if self._drawn:
            self._drawn = ""
            self._console.control(_ERASE)
            self._console.file.flush()

    def _columns(self) -> int:
        """The terminal's width at this moment; the environment's COLUMNS may be that of an earlier one."""
        try:
            return os.get_terminal_size(self._console.file.fileno()).columns or self._console.width
        except OSError:  # no terminal, but a text in memory
            return self._console.width
