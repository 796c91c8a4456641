"""What to say of a script in which no backend call failed."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from minifier.capturing.script import Program
from minifier.errors import MinifyError, NothingToReduce, StoppedEarly

if TYPE_CHECKING:  # importing it would import torch before the arguments are checked
    from minifier.capturing.capture import Captured

_MOST = 3  # lines of logs that are shown
_WIDEST = 160


def nothing_failed(program: Program, captured: Captured, compared: Captured | None) -> MinifyError:
    """Why there is nothing to reduce, and what was checked."""
    name = program.said
    if captured.end.interrupted:
        return StoppedEarly(f"{name} was interrupted before a backend call had failed")
    checked = (
        f"{captured.graphs} graph{'s' if captured.graphs != 1 else ''} went to the backend "
        f"({', '.join(captured.backends)}); each was compiled, and each call of the result was watched for an exception"
        + _comparison(captured, compared)
        if captured.graphs
        else "no graph went to a backend"
    )
    if captured.end.signal is not None:
        return NothingToReduce(
            f"{name} died of signal {captured.end.signal} outside of any backend call. Checked: {checked}."
            + _advice(captured)
        )
    last = captured.error
    if "InvalidBackend" in captured.traceback:
        return NothingToReduce(f"{name} names a backend that does not exist.\n{last}\n{_similar(captured.traceback)}")
    if captured.traceback:
        return NothingToReduce(
            f"{name} fails by itself: {last}\nNo backend call failed. Checked: {checked}." + _advice(captured)
        )
    if not captured.graphs:
        return NothingToReduce(
            f"{name} ended with exit status {captured.script_status}, and nothing in it was compiled: no call "
            "reached a function under torch.compile, or Dynamo found no ops to compile in it."
        )
    return NothingToReduce(
        f"{name} ended with exit status {captured.script_status} and no backend call failed. Checked: {checked}."
        + _too_late(captured)
        + _advice(captured)
    )


def _too_late(captured: Captured) -> str:
    """What the script set for a torch that it had not imported yet, but which was there already."""
    if not captured.environment:
        return ""
    variables = " ".join(f"{name}={value}" for name, value in captured.environment)
    return (
        f"\nThe script sets {variables}, which torch reads when it is imported: under minify that is before the "
        f"script starts. Try `{variables} minify run ...`."
    )


def _comparison(first: Captured, compared: Captured | None) -> str:
    """What was compared with eager, and what was not."""
    if compared is None:
        return "; results were not compared with eager"
    graphs, done = len(first.forwards), len(compared.compared)
    trained = sum(gradients for _, gradients in compared.compared)
    what = "its first result"
    if trained:
        what += " and gradients" if trained == done else f" (and gradients of the {trained} that are trained)"
    if not done:
        said = "; no result could be compared with eager's"
    elif done == graphs:
        said = f"; {what} agreed with eager's"
    else:
        said = f"; of {done} of the {graphs} of Dynamo's {what} agreed with eager's, the rest was not compared"
    if compared.not_compared:
        number, reason = compared.not_compared[0]
        said += f" (graph {number} not compared: {reason.strip().splitlines()[-1]})"
    return said + _otherwise(first, compared)


def _otherwise(first: Captured, second: Captured) -> str:
    """How the run that compares ended, if not as the first did: it may not have come to all graphs."""
    if second.lost is not None:
        how = "did not survive the comparison"
    elif second.end.interrupted:
        how = "was interrupted"
    elif second.end.signal != first.end.signal:
        how = f"died of signal {second.end.signal}" if second.end.signal is not None else "did not die"
    elif second.error and second.error != first.error:
        how = f"failed: {second.error}"
    elif second.script_status != first.script_status:
        how = f"ended with exit status {second.script_status}"
    elif len(second.forwards) != len(first.forwards):
        how = f"came to {len(second.forwards)} graphs"
    else:
        return ""
    return f". The second run, which compares, went otherwise than the first: it {how}"


def _advice(captured: Captured) -> str:
    """What backends logged, which may be a failure that they got around."""
    lines = [line.splitlines()[0] for line in captured.logged if line]
    if not lines:
        return ""
    shown = "".join(f"\n    {line if len(line) <= _WIDEST else line[:_WIDEST] + ' ...'}" for line in lines[:_MOST])
    more = f"\n    and {len(lines) - _MOST} more" if len(lines) > _MOST else ""
    return (
        f"\nDuring backend calls this was logged:{shown}{more}\n"
        "With --match-log REGEX a line that matches is a failure, and is reduced like any other."
    )


def _similar(trace: str) -> str:
    """What the user may have meant by a backend's name that does not exist."""
    import re

    from minifier.torch_private import backend_table

    found = re.search(r"InvalidBackend: Invalid backend: '([^']*)'", trace)
    known = [name for name, _, _ in backend_table()]
    close = difflib.get_close_matches(found.group(1), known) if found else []
    hint = f"Did you mean {' or '.join(close)}? " if close else ""
    return (
        hint + "`minify backends` lists what torch.compile finds; a backend that a module registers is found only "
        "once that module is imported."
    )
