"""`minifier.check` and `minifier.minify`: a function or module under a backend, from the user's own process.

The user's process only records the graphs. Every call of the backend happens in another process, which may die or hang.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from minifier.capturing import script
from minifier.case.run_folder import RunFolder, next_place
from minifier.case.store import load
from minifier.embed.function_outcome import FunctionOutcome, outcome_of
from minifier.embed.recording import record_graphs
from minifier.embed.reducing import start_reducing, wait_for_repro
from minifier.embed.session import free_folder
from minifier.embed.try_recorded import answer_file, read_answer
from minifier.errors import UsageError
from minifier.failure import Failure
from minifier.process.child import end
from minifier.workflow.keep_case import keep_case

Inputs = Sequence[Any]
"""The positional arguments of a call: tensors and other values."""


def check(
    fn: Callable[..., Any], inputs: Inputs = (), backend: Any = "inductor", *, timeout: float | None = None
) -> Failure | None:
    """Call `fn(*inputs)` once under the backend, and compare with eager; return the first failure, or None.

    `fn` is a function or a module. `backend` is whatever torch.compile takes. The backward pass is run too, where the
    results require grad. `timeout` is in seconds, for each graph; by default 120.

    No folder stays. Tensors, modules, optimizers, containers and objects of the user's classes that `fn` and `inputs`
    reach are afterwards as before, so are the global random generators and Dynamo's caches. docs/how-to/in-process.md
    has the limits. Raises whatever `fn` itself raises without the backend, NoRepro if no other process can have the
    graph or the backend, and MinifyError. Under `minify run` the backend is called here, so that `minify run` sees
    the failure.
    """
    _refuse_if_no_arguments(inputs)
    if script.under_run:
        torch.compile(fn, backend=backend)(*inputs)
        return None
    with _first_failing_call(fn, inputs, backend, timeout) as (folder, _):
        return load(folder.case).failure if folder is not None else None


def minify(
    fn: Callable[..., Any],
    inputs: Inputs = (),
    backend: Any = "inductor",
    *,
    out: Path | str | None = None,
    timeout: float | None = None,
    options: Sequence[str] = (),
) -> FunctionOutcome:
    """Call `fn(*inputs)` as `check` does, and reduce the first failure to a verified repro, in another process.

    `out` is by default `minify-out/<name of fn>-<n>`. If the folder is in use, a number is appended. It is made only
    for a failure. `options` are command-line options of `minify reduce`. Raises as `check` does.
    """
    _refuse_if_no_arguments(inputs)
    if script.under_run:
        check(fn, inputs, backend)
        return FunctionOutcome()
    name = getattr(fn, "__name__", type(fn).__name__)
    with _first_failing_call(fn, inputs, backend, timeout) as (found, graphs):
        if found is None:
            return FunctionOutcome(graphs=graphs)
        place = next_place(_folder_name(name)).absolute() if out is None else free_folder(out)
        keep_case(found.case, place)
    limit = [] if timeout is None else ["--timeout", str(timeout)]
    wait_for_repro(start_reducing(place, [*limit, *options]), place)
    return outcome_of(place, graphs)


def _refuse_if_no_arguments(inputs: Any) -> None:
    """Raise UsageError for a tensor, say, which Python would unpack along its first dimension."""
    if not isinstance(inputs, (list, tuple)):
        kind = type(inputs).__name__
        raise UsageError(f"inputs is a {kind}: give the arguments of the call as a list or tuple, like [x].")


def _folder_name(name: str) -> str:
    return "".join(character if character.isalnum() else "-" for character in name).strip("-") or "function"


@contextlib.contextmanager
def _first_failing_call(
    fn: Callable[..., Any], inputs: Inputs, backend: Any, timeout: float | None
) -> Iterator[tuple[RunFolder | None, int]]:
    """Yield the folder of the first failing call, or None, and the number of graphs. The folder is removed then."""
    with tempfile.TemporaryDirectory(prefix="minify-") as temporary:
        recorded = Path(temporary)
        graphs = record_graphs(fn, inputs, backend, recorded)
        yield (_tried(recorded, timeout) if graphs else None), graphs


def _tried(recorded: Path, timeout: float | None) -> RunFolder | None:
    """Make the recorded calls in another process. Raises the error of that process."""
    limit = "" if timeout is None else str(timeout)
    with (
        answer_file() as answer,
        subprocess.Popen(
            [sys.executable, "-m", "minifier.embed.try_recorded", str(recorded), str(answer), limit],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            pass_fds=[answer],
        ) as process,
    ):
        try:
            _, diagnostics = process.communicate()
        except BaseException:  # an interrupt, in a notebook too
            end(process)
            raise
        folder = read_answer(answer, diagnostics)
    return None if folder is None else RunFolder(folder)
