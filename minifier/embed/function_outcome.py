"""The result of `minifier.minify`, which a notebook shows as HTML."""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from minifier.case import Case
from minifier.case.run_folder import RunFolder, shown_path
from minifier.case.store import CASE, load
from minifier.embed.reducing import LOG
from minifier.failure import Failure
from minifier.process.progress import counted
from minifier.report.finished import FINISHED, read_finished
from minifier.report.last_block import ResultRow, last_block, lines_of


@dataclass(frozen=True, repr=False)
class FunctionOutcome:
    """The result of `minifier.minify`. Without a failure, only `graphs` is known.

    failure: the first failure. `failure.sentence` describes it.
    repro: the path of the verified repro; None without one.
    ops: the number of ops that are left in the repro; None if nothing was reduced.
    ops_before: the number of ops of the failing graph.
    origin: the lines of the user's code, like `model.py:14`, that the ops which are left come from.
    folder: the output folder, with the reports.
    graphs: the number of graphs that Dynamo made of the function.
    """

    failure: Failure | None = None
    repro: Path | None = None
    ops: int | None = None
    ops_before: int = 0
    origin: tuple[str, ...] = ()
    folder: Path | None = None
    graphs: int = 0
    _rows: tuple[ResultRow, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether there was a failure."""
        return self.failure is not None

    def __repr__(self) -> str:
        return "\n".join(line for line, _ in lines_of(tuple(self._shown()), None))

    def _shown(self) -> Iterator[ResultRow]:
        if self.failure is None:
            seen = "no graph went to the backend" if not self.graphs else f"{counted(self.graphs, 'graph')} compared"
            yield ResultRow("passed", f"no backend call fails, and results are eager's; {seen}")
            return
        yield from self._rows

    def _repr_html_(self) -> str:
        """Return the rows of the result, and the repro, for a notebook. All texts are escaped."""
        rows = "".join(
            f"<tr><th style='text-align:left'>{html.escape(row.label)}</th>"
            f"<td style='text-align:left;white-space:pre-wrap'>{html.escape(row.text)}</td></tr>"
            for row in self._shown()
        )
        shown = f"<table>{rows}</table>"
        if self.repro is not None and self.repro.exists():
            shown += f"<pre>{html.escape(self.repro.read_text(encoding='utf-8'))}</pre>"
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
    return FunctionOutcome(failure, repro, ops, len(case.graph.ops), _places(minimal or case), out, graphs, tuple(rows))


def _places(case: Case) -> tuple[str, ...]:
    """Return the lines of the user's code that the ops come from, each once."""
    return tuple(dict.fromkeys(node.place for node in case.graph.ops if node.place))


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8").strip().splitlines() if log.exists() else []
    return lines[-1] if lines else "it is empty"
