"""Ask before code of somebody else runs. docs/explanation/trust.md says what is asked, and when."""

from __future__ import annotations

from collections.abc import Sequence

from minifier.case.made_here import why_no_key
from minifier.display.console import Console
from minifier.errors import NotTrusted
from minifier.workflow.foreign_code import Row, shown


def ask_about(given: str, code: Sequence[Row], console: Console, trust: bool) -> None:
    """Return if the code may be run: there is none of somebody else's, or the user allows it.

    `given` is the folder or bundle as the user named it. Raises NotTrusted otherwise.
    """
    if trust or not code:
        return
    reason = why_no_key()
    whose = (
        f"it cannot be told who made {given} ({reason})" if reason else f"{given} is not as your minify wrote it here"
    )
    what = f"{whose}. This would run code in it:\n{shown(code)}"
    if not console.can_ask:
        raise NotTrusted(f"{what}\nNothing was run. If you trust whoever made it, give --trust.")
    if not console.ask(f"{what}\nRun it?"):
        raise NotTrusted(f"nothing of {given} was run. --trust runs it without this question.")
