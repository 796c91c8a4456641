"""What is said beside an exception that goes on as it was."""

from __future__ import annotations

import sys


def add_note(error: BaseException, note: str) -> None:
    """Adds a note that the traceback shows. Python 3.10 has none: there it is printed to standard error."""
    if hasattr(error, "add_note"):
        error.add_note(note)
    else:
        print(note, file=sys.stderr)
