"""`python -m minifier.flow.embed.try_recorded`: find the first failing call of recorded graphs, in another process."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from minifier.data.settings import Settings
from minifier.errors import ToolFailed
from minifier.flow.prepare import prepared
from minifier.process.forked_step import deserialised, serialised
from minifier.process.interpreters import Interpreters
from minifier.process.interrupts import end_by_signals
from minifier.process.progress import SILENT

_FOUND, _NOTHING, _RAISED = b"found ", b"nothing", b"raised "


@contextlib.contextmanager
def answer_file() -> Iterator[int]:
    """Yield the descriptor of a file in memory, where the process writes its answer: a full disk does not matter."""
    descriptor = os.memfd_create("minify-answer")
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def read_answer(descriptor: int, diagnostics: str) -> Path | None:
    """Return the run folder with the Case of the first failing call, None if none fails.

    Raises the error of the process, or ToolFailed with its last words if it wrote no answer.
    """
    os.lseek(descriptor, 0, os.SEEK_SET)
    with open(descriptor, "rb", closefd=False) as file:
        answer = file.read()
    if answer.startswith(_RAISED):
        raise deserialised(answer.removeprefix(_RAISED))
    if answer.startswith(_FOUND):
        return Path(os.fsdecode(answer.removeprefix(_FOUND)))
    if answer != _NOTHING:
        raise ToolFailed(f"the process that calls the backend ended without an answer:\n{diagnostics}")
    return None


def main(arguments: Sequence[str]) -> None:
    """Write the answer for the graphs in the folder `arguments[0]` into the descriptor `arguments[1]`.

    `arguments[2]` is the time limit, "" for none.
    """
    recorded, descriptor = Path(arguments[0]), int(arguments[1])
    timeout = float(arguments[2]) if arguments[2] else None
    os.set_inheritable(descriptor, False)
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
        file.write(answer)


if __name__ == "__main__":
    main(sys.argv[1:])
