"""The last lines of a run: what failed, where, how small it is, how often it was verified, and what to do next."""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from minifier.data.case import Case
from minifier.data.case.graph import Node
from minifier.data.case.literals import WITHOUT
from minifier.data.case.run_folder import shown_path, typed_path
from minifier.data.failure.frames import Frame, installed_path, is_owned
from minifier.data.failure.kinds import Aspect, Kind, Stage
from minifier.data.failure.normalise import headline, shortened
from minifier.errors import said_of_trace
from minifier.process.progress import counted

if TYPE_CHECKING:  # importing it takes long
    from minifier.repro.report.outcome import Outcome

_INDENT = 10  # columns of the labels
_MAX_OTHERS = 3  # other failures that are named
_MAX_PLACES = 3
_MAX_MESSAGE_CHARACTERS = 160
_STACK_FRAME = re.compile(r'^  File "([^"\n]+)", line \d+, in (.+)$', re.MULTILINE)
Mark = Callable[[str], str]  # encloses names and source in backticks, for a report


@dataclass(frozen=True, slots=True)
class ResultRow:
    """A fact about the result under a label. A path or command is `verbatim`: it is never wrapped."""

    label: str
    text: str
    style: str = ""
    verbatim: bool = False


def last_block(outcome: Outcome) -> tuple[ResultRow, ...]:
    """Return the rows for a finished run, always in the same order. A row that nothing is known for is left out."""
    return (
        ResultRow("failed", _failed(outcome), "bold"),
        *_raised(outcome),
        *_where(outcome),
        ResultRow(
            "reduced", outcome.reduced + (f", {outcome.total_seconds:.1f} s" if outcome.summary is not None else "")
        ),
        *_cause(outcome),
        *_verified(outcome),
        *_explained(outcome),
        *_others(outcome),
        *_errors(outcome),
        *_folders(outcome),
        *_next(outcome),
    )


def lines_of(rows: Sequence[ResultRow], width: int | None) -> Iterator[tuple[str, str]]:
    """Yield (line, style) for a terminal of this width, with no word broken. Without a width, nothing is wrapped."""
    indent = " " * _INDENT
    for row in rows:
        label = f"{row.label:{_INDENT}}"
        for text in row.text.splitlines():
            if width is None or len(text) <= width - _INDENT:
                yield label + text, row.style
            elif row.verbatim:  # a line of its own, which the terminal wraps and a copy does not
                yield from [(row.label, row.style)] if row.label else []
                yield text, row.style
            else:
                wrapper = textwrap.TextWrapper(width, label, indent, break_long_words=False, break_on_hyphens=False)
                yield from ((line, row.style) for line in wrapper.wrap(text))
            label = indent


def in_module(node: Node, mark: Mark = str) -> str:
    """Return ` in Block (layers.3)`, the class of the module around an op and its path; "" outside of modules."""
    name, path = node.module
    where = f" ({mark(path)})" if path else ""
    return f" in {mark(name)}{where}" if name else ""


def what_to_do(change: str, mark: Mark = str, note: str = "") -> str:
    """Return how a change that avoids the failure is made: `leave out ...`, or the line itself, with a note of it."""
    if change.startswith(WITHOUT):
        return f"leave out {mark(change.removeprefix(WITHOUT))}"
    return f"{mark(change)}{note}"


def _failed(outcome: Outcome) -> str:
    from minifier.repro.report.failure_text import event_of, is_own_check

    case, failure = outcome.minimal or outcome.case, outcome.shown_failure
    fingerprint = case.failure.fingerprint
    event = f"{case.backend.name}: {event_of(case)}"
    if fingerprint.stage is Stage.COMPARE:
        return f"{event}; {_how_wrong(outcome)}"
    says = fingerprint.kind in (Kind.EXCEPTION, Kind.SILENT_FALLBACK) or is_own_check(failure)
    message = case.script.sight or (headline(failure.message) if says else "")
    message = shortened(message, _MAX_MESSAGE_CHARACTERS)
    rate = f" (in about {case.rate:.0%} of attempts)" if case.rate < 1 else ""
    return f"{event}: {message}{rate}" if message else event + rate


def _how_wrong(outcome: Outcome) -> str:
    failure = outcome.shown_failure
    first = failure.differences[0] if failure.differences else None
    if first is None or first.aspect is Aspect.NON_FINITE or not first.error or first.eager_error is None:
        return failure.message
    return f"{first.where} is off by {first.error:.2g}, eager by {first.eager_error:.1g}"


def _raised(outcome: Outcome) -> Iterator[ResultRow]:
    """Yield the function of the backend that raises the exception, or in which the process died or hung."""
    case = outcome.minimal or outcome.case
    shown = case.failure.fingerprint
    if shown.kind in (Kind.SIGNAL, Kind.TIMEOUT):
        frames = [_innermost(case.failure.traceback or outcome.failure.traceback, outcome.case)]
    else:
        frames = [shown.raising, shown.site] if shown.kind is Kind.EXCEPTION else []
    if frame := next((each for each in frames if each is not None and is_owned(each.module)), None):
        yield ResultRow("raised by", f"{frame.module}.{frame.function}")


def _innermost(stack: str, case: Case) -> Frame | None:
    """Return the innermost frame of the saved stack that is the backend's, of an installed module or the script's."""
    for file, function in reversed(_STACK_FRAME.findall(stack)):
        known = filter(None, (*case.import_path, *sys.path, os.getcwd()))
        folders = (folder for folder in known if file.startswith(os.path.join(folder, "")))
        path = installed_path(file) or next((os.path.relpath(file, folder) for folder in folders), "")
        frame = Frame(path.removesuffix(".py").removesuffix("/__init__").replace("/", "."), function)
        if is_owned(frame.module) and path != case.script.file:
            return frame
    return None


def _where(outcome: Outcome) -> Iterator[ResultRow]:
    """Yield the places of the remaining ops; the line that led to the backend call, for ops of torch's own modules."""
    ops = outcome.minimal.graph.ops if outcome.minimal is not None else ()
    script = outcome.case.script
    call = f"the call in {script.file or script.name}:{script.line}" if script.line else ""
    found = [f"{node.place or f'{call},'}{in_module(node)}" for node in ops if node.place or (call and node.modules)]
    places = list(dict.fromkeys(found or filter(None, [call])))
    if places:
        more = [f"{counted(len(places) - _MAX_PLACES, 'place')} more"] if len(places) > _MAX_PLACES else []
        yield ResultRow("where", "\n".join([*places[:_MAX_PLACES], *more]))


def _cause(outcome: Outcome) -> Iterator[ResultRow]:
    """Yield what is known of the ops that make the script's result wrong, unless the repro has all of them."""
    if outcome.summary is not None and outcome.summary.cause and outcome.summary.guilt not in ("proved", "repeated"):
        yield ResultRow("cause", outcome.summary.cause, "yellow")


def _verified(outcome: Outcome) -> Iterator[ResultRow]:
    if outcome.repro is None:
        yield ResultRow("no repro", outcome.reason or "no standalone script shows this failure", "yellow")
        return
    yield ResultRow("verified", outcome.verdict, "green")


def _explained(outcome: Outcome) -> Iterator[ResultRow]:
    """Yield what of the compiler is at fault, and a verified line that avoids it."""
    if outcome.summary is not None and outcome.summary.part:
        yield ResultRow("at fault", outcome.summary.part)
    if outcome.summary is not None and outcome.summary.workarounds:
        line = what_to_do(outcome.summary.workarounds[0], note="  # tested on the repro")
        yield ResultRow("avoid", line, verbatim=True)


def _others(outcome: Outcome) -> Iterator[ResultRow]:
    """Yield other failures of the search, each with the command that reduces it."""
    others = outcome.summary.others if outcome.summary is not None else ()
    if outcome.summary is not None and outcome.summary.hiding:
        yield ResultRow("note", outcome.summary.hiding)
    for other in others[:_MAX_OTHERS]:
        message = shortened(headline(other.message), _MAX_MESSAGE_CHARACTERS)
        where = f" in {other.where}" if other.where else ""
        which = f", raised at the same place by {counted(other.ops, 'op')}" if other.near else ""
        yield ResultRow("also met", f"{other.type}{where}: {message}{which}")
        yield ResultRow("", f"minify reduce {typed_path(outcome.folder / other.case)}", verbatim=True)
    if (more := len(others) - _MAX_OTHERS) > 0:
        folder = shown_path(outcome.folder / "others")
        yield ResultRow("", f"{counted(more, 'other failure')} more in {folder}")


def _errors(outcome: Outcome) -> Iterator[ResultRow]:
    """Yield this tool's own errors. An error that ended several steps is told once."""
    for said in dict.fromkeys(shortened(said_of_trace(error), _MAX_MESSAGE_CHARACTERS) for error in outcome.errors):
        yield ResultRow("note", f"{said}; report.md has the traceback", "yellow")


def _folders(outcome: Outcome) -> Iterator[ResultRow]:
    folders = outcome.minimal.folders if outcome.minimal is not None and outcome.repro is not None else ()
    if folders:
        path = f"PYTHONPATH={':'.join(folders)}"
        yield ResultRow("needs", f"{path}, where the script's own modules are", verbatim=True)


def _next(outcome: Outcome) -> Iterator[ResultRow]:
    """Yield the path of the repro, or else of the folder, and the next command."""
    folder, typed = shown_path(outcome.folder), typed_path(outcome.folder)
    yield ResultRow(
        *(("saved", folder) if outcome.repro is None else ("repro", shown_path(outcome.folder / "repro.py"))),
        verbatim=True,
    )
    summary = outcome.summary
    is_stopped = summary is not None and (summary.stopped_because or summary.unfinished)
    goes_on = is_stopped and outcome.case.level.value != "source"
    command = f"minify reduce {typed}" if goes_on else f"minify report --github {typed}"
    yield ResultRow("next", command, verbatim=True)
