"""`minifier.check` and `minifier.minify`: a function under a backend, and the result, which a notebook shows."""

from __future__ import annotations

import contextlib
import html
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from minifier.capturing import script
from minifier.data.case.run_folder import RunFolder, next_place, shown_path
from minifier.data.case.store import CASE, FINISHED, load
from minifier.data.failure import Failure
from minifier.data.failure.normalise import printable
from minifier.errors import UsageError
from minifier.flow.embed.recording import record_graphs
from minifier.flow.embed.reducing import LOG, StatusLine, start_reducing, wait_for, wait_for_repro
from minifier.flow.embed.session import free_folder, name_of
from minifier.flow.embed.try_recorded import read_answer
from minifier.flow.keep_case import keep_case
from minifier.process.progress import counted
from minifier.repro.report.last_block import ResultRow, last_block, lines_of
from minifier.repro.report.write_reports import read_finished

Inputs = Sequence[Any]
"""The positional arguments of a call: tensors and other values."""


def check(
    fn: Callable[..., Any], inputs: Inputs = (), backend: Any = "inductor", *, timeout: float | None = None
) -> FunctionOutcome:
    """Call `fn(*inputs)` once under the backend, and compare with eager; return what the first failure is, if any.

    `fn` is a function or a module. `backend` is whatever torch.compile takes. The backward pass is run too, where the
    results require grad. `timeout` is in seconds, for each graph; by default 120.

    No folder stays. `fn` is called on deep copies of the inputs. The parameters, buffers and gradients of a module, or
    of the module whose method `fn` is, are afterwards as before; so are the global random generators and Dynamo's
    caches. Other side effects stay, as after any call: an optimizer that `fn` steps, a list that it appends to. Raises
    whatever `fn` itself raises without the backend, NoRepro if no other process can have the graph or the backend, and
    MinifyError. Under `minify run` the backend is called here, so that `minify run` sees the failure.
    """
    _refuse_if_no_arguments(inputs)
    if script.under_run:
        torch.compile(fn, backend=backend)(*inputs)
        return FunctionOutcome(name_of(backend))
    with _first_failing_call(fn, inputs, backend, timeout) as (folder, graphs, _):
        failure = load(folder.case).failure if folder is not None else None
        return FunctionOutcome(name_of(backend), failure, graphs)


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
    if script.under_run:
        return check(fn, inputs, backend)
    _refuse_if_no_arguments(inputs)
    with _first_failing_call(fn, inputs, backend, timeout) as (found, graphs, status):
        if found is None:
            return FunctionOutcome(name_of(backend), graphs=graphs)
        words = "".join(character if character.isalnum() else "-" for character in name_of(fn)).strip("-")
        place = next_place(words or "function").absolute() if out is None else free_folder(out)
        keep_case(found.case, place)
        limit = [] if timeout is None else ["--timeout", str(timeout)]
        wait_for_repro(start_reducing(place, [*limit, *options]), place, status)
    return outcome_of(place, graphs)


def _refuse_if_no_arguments(inputs: Any) -> None:
    """Raise UsageError for a tensor, say, which Python would unpack along its first dimension."""
    if not isinstance(inputs, (list, tuple)):
        kind = type(inputs).__name__
        raise UsageError(f"inputs is a {kind}: give the arguments of the call as a list or tuple, like [x].")


@contextlib.contextmanager
def _first_failing_call(
    fn: Callable[..., Any], inputs: Inputs, backend: Any, timeout: float | None
) -> Iterator[tuple[RunFolder | None, int, StatusLine]]:
    """Yield the folder of the first failing call, or None, the number of graphs, and the line that says what is done.

    The folder is removed then.
    """
    with (
        tempfile.TemporaryDirectory(prefix="minify-") as temporary,
        StatusLine(f"minify: calling {name_of(fn)} under {name_of(backend)}") as status,
    ):
        recorded = Path(temporary)
        graphs = record_graphs(fn, inputs, backend, recorded)
        yield (_tried(recorded, timeout, status) if graphs else None), graphs, status


def _tried(recorded: Path, timeout: float | None, status: StatusLine) -> RunFolder | None:
    """Make the recorded calls in another process. Raises the error of that process."""
    limit = "" if timeout is None else str(timeout)
    with (
        open(os.memfd_create("minify-answer"), "w+b") as answer,  # in memory: a full disk does not matter
        tempfile.TemporaryFile("w+") as diagnostics,
        subprocess.Popen(
            [sys.executable, "-m", "minifier.flow.embed.try_recorded", str(recorded), limit],
            stdin=subprocess.DEVNULL,
            stdout=answer,
            stderr=diagnostics,
            start_new_session=True,
        ) as process,
    ):
        wait_for(process, status.tick)
        for file in (answer, diagnostics):
            file.seek(0)
        folder = read_answer(answer.read(), diagnostics.read())
    return None if folder is None else RunFolder(folder)


# Copies by the selection, which works in frames and without https too.
_COPY_BUTTON = (
    "<button onclick=\"getSelection().selectAllChildren(this.nextElementSibling); document.execCommand('copy')\">"
    "Copy</button>"
)


@dataclass(frozen=True, repr=False)
class FunctionOutcome:
    """The result of `minifier.check` and `minifier.minify`; `sentence` says it. `check` tells the first three fields.

    backend: the name of the backend.
    failure: the first failure, or None. `failure.sentence` describes it.
    graphs: the number of graphs that Dynamo made of the function; None under `minify run`, which compares them itself.
    repro: the path of the verified repro; None without one.
    ops: the number of ops that are left in the repro; None if nothing was reduced.
    ops_before: the number of ops of the failing graph.
    origin: the lines of the user's code, like `model.py:14`, that the ops which are left come from.
    folder: the output folder, with the reports.
    """

    backend: str
    failure: Failure | None = None
    graphs: int | None = None
    repro: Path | None = None
    ops: int | None = None
    ops_before: int = 0
    origin: tuple[str, ...] = ()
    folder: Path | None = None
    _rows: tuple[ResultRow, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether there was a failure."""
        return self.failure is not None

    def __bool__(self) -> bool:
        return self.failed

    @property
    def sentence(self) -> str:
        """Whether the backend is right, or how it fails, in one sentence."""
        backend = f"the backend {self.backend!r}"
        if self.failure is not None:
            return f"{backend} fails: {self.failure.sentence}"
        if self.graphs is None:
            return f"{backend} was called, and minify run looks how that ends"
        if not self.graphs:
            return f"{backend} was given no graph"
        return f"{backend} gives the values of eager mode; {counted(self.graphs, 'call')} compared"

    def __repr__(self) -> str:
        if not self._rows:
            return printable(self.sentence, kept="")
        return printable("\n".join(line for line, _ in lines_of(self._rows, None)))

    def _repr_html_(self) -> str:
        """Return the rows of the result, and the repro with a button that copies it, for a notebook.

        All texts are escaped.
        """
        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(row.label)}</th>"
            f"<td style='text-align:left;white-space:pre-wrap'>{html.escape(row.text)}</td></tr>"
            for row in self._rows or (ResultRow("failed" if self.failed else "passed", self.sentence),)
        )
        shown = f"<table>{rows}</table>"
        if self.repro is not None and self.repro.exists():
            source = html.escape(self.repro.read_text(encoding="utf-8"))
            shown += f'{_COPY_BUTTON}<pre style="font-family:monospace">{source}</pre>'
        return shown


def outcome_of(out: Path, graphs: int) -> FunctionOutcome:
    """Read the output folder of a reduction that has ended, or that died; the log is named then."""
    folder = RunFolder(out)
    case = load(folder.case)
    minimal = load(folder.minimal) if (folder.minimal / CASE).exists() else None
    if (out / FINISHED).exists():
        finished, _ = read_finished(out)
        rows, failure = last_block(finished), finished.failure
        ops = finished.summary.ops_after if finished.summary is not None else None
    else:
        log, failure, ops = out / LOG, case.failure, None
        rows = (
            ResultRow("failed", f"{case.backend.name}: {failure.sentence}"),
            ResultRow("no repro", f"{shown_path(log)} says why: {_last_line(log)}"),
            ResultRow("saved", shown_path(out)),
        )
    repro = folder.repro if folder.repro.exists() else None
    places = tuple(dict.fromkeys(node.place for node in (minimal or case).graph.ops if node.place))
    return FunctionOutcome(
        case.backend.name, failure, graphs, repro, ops, len(case.graph.ops), places, out, tuple(rows)
    )


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8").strip().splitlines() if log.exists() else []
    return lines[-1] if lines else "it is empty"
