"""`with minifier.capture(DIR):` saves the first failing backend call, and does nothing else."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from minifier.capturing import script
from minifier.embed.session import Session, free_folder, keep, tell, wrong_result


@contextlib.contextmanager
def capture(folder: Path | str, *, keep_inputs: bool = False, compare: bool = True) -> Iterator[None]:
    """Save the first failing backend call of the body into `folder` as a Case; note the folder on the exception.

    With `compare`, some results are compared with eager's, as `minify run` does but without gradients. A wrong result
    is saved like a failure, and a warning names the folder.

    Meant for machines that must run nothing else: `minify reduce FOLDER` makes the repro elsewhere.

    If the process dies in a backend call, `minify reduce FOLDER` repeats the call to see the failure. The inputs of a
    call of a compiled function are then known only with `keep_inputs`, which saves them before each call.

    Functions compiled earlier are not observed: compile within the body. If `folder` is in use, the Case goes to
    `folder-2`, or else `folder-3`, and so on. Under `minify run` this does nothing.
    """
    if script.under_run:
        yield
        return
    out = free_folder(folder)
    has_failed = False

    def failed(number: int, error: BaseException | None) -> None:
        nonlocal has_failed
        if has_failed:
            return
        has_failed = True
        case = keep(session, number, out)
        if case is None:
            tell(error, "minifier: the failing graph could not be saved; `minify run` may do more")
            return
        seen = "minifier:" if error is not None else f"minifier: {wrong_result(case)};"
        tell(error, f"{seen} the failing backend call is in {out}: `minify reduce {out}` makes a repro of it")

    session = Session(out.name, lambda compiler_fn: compiler_fn, failed, out, keep_inputs, compare)
    try:
        yield
    finally:
        session.end()
