"""`with minifier.capture(DIR):` writes down the backend call that fails, and does nothing else."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from minifier.capturing import script
from minifier.embed.notes import add_note
from minifier.embed.session import Session, free_folder, keep


@contextlib.contextmanager
def capture(folder: Path | str, *, keep_inputs: bool = False) -> Iterator[None]:
    """Within it, the first call of a backend that fails is written into `folder` as a Case; the exception goes on with
    a note that says so. For machines on which nothing else may run: `minify reduce FOLDER` makes the repro elsewhere.

    Where the process dies in such a call, the folder keeps what is known of it, and `minify reduce FOLDER` makes the
    call once more to find out how it fails. Of a call of what was compiled the inputs are not known then, but with
    `keep_inputs`, which writes them down ahead of each.

    What was compiled before is not observed: compile within it. If there is something in the folder, the first of
    `folder-2`, `folder-3` and so on that is free takes its place. Under `minify run` it does nothing.
    """
    if script.under_run:
        yield
        return
    out = free_folder(folder)
    done = False

    def failed(number: int, error: BaseException) -> None:
        nonlocal done
        if done:
            return
        done = True
        if keep(session, number, out) is None:
            add_note(error, "minifier: the failing graph could not be saved; `minify run` may do more")
        else:
            add_note(
                error, f"minifier: the failing backend call is in {out}: `minify reduce {out}` makes a repro of it"
            )

    session = Session(out.name, lambda compiler_fn: compiler_fn, failed, out, keep_inputs)
    try:
        yield
    finally:
        session.end()
