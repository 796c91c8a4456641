"""`python -m minifier.flow.embed.try_recorded`: find the first failing call of recorded graphs, in another process."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from minifier.data.settings import Settings
from minifier.errors import ToolFailed
from minifier.flow.prepare import prepared
from minifier.process.forked_step import deserialised, serialised
from minifier.process.interpreters import Interpreters
from minifier.process.interrupts import end_by_signals
from minifier.process.progress import SILENT

_FOUND, _NOTHING, _RAISED = b"found ", b"nothing", b"raised "


def read_answer(output: bytes, diagnostics: str) -> Path | None:
    """Return the run folder with the Case of the first failing call, None if none fails.

    Raises the error of the process, or ToolFailed with its last words if its standard output has no answer.
    """
    answer = output.rpartition(b"\n")[2]  # behind what the user's own Python prints as it starts
    if answer.startswith(_RAISED):
        raise deserialised(answer.removeprefix(_RAISED))
    if answer.startswith(_FOUND):
        return Path(os.fsdecode(answer.removeprefix(_FOUND)))
    if answer != _NOTHING:
        raise ToolFailed(f"the process that calls the backend ended without an answer:\n{diagnostics}")
    return None


def main(arguments: Sequence[str]) -> None:
    """Write the answer for the graphs in the folder `arguments[0]` to standard output, the prints of backends nowhere.

    `arguments[1]` is the time limit, "" for none.
    """
    recorded, timeout = Path(arguments[0]), float(arguments[1]) if arguments[1] else None
    descriptor = os.dup(1)  # closed in programs that the backend starts
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored by some parents, which would hide how a child ended
    end_by_signals()
    try:
        with prepared(Settings(timeout=timeout, verify=1), SILENT, Interpreters()) as run:
            from minifier.flow.first_failure import first_failure

            found = first_failure(recorded, recorded / "tried", run.settings, run.ui)
        answer = _NOTHING if found is None else _FOUND + os.fsencode(found.path)
    except Exception as error:  # noqa: BLE001 - the other process raises it again
        answer = _RAISED + serialised(error)
    with open(descriptor, "wb") as file:
        file.write(b"\n" + answer)


if __name__ == "__main__":
    main(sys.argv[1:])
