"""Run the whole script first: its failure, its control, and what its candidates have to keep."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace

from minifier.case import Case
from minifier.errors import FailsByItself, NoRepro
from minifier.failure import Failure, Fingerprint, Kind, same
from minifier.fx.script_definitions import FILE
from minifier.interfaces.names import ERRORS_OF_DYNAMO
from minifier.probe.verdicts import seen
from minifier.slicing.names import missing_names
from minifier.source.backend_guard import SameBackends
from minifier.source.conditions import SameLine, SourceRun
from minifier.source.own_check import SameCheck
from minifier.source.probe import SourceLab, passed


@dataclass(frozen=True, slots=True)
class KnownRun:
    """What is known of the script's run as the user runs it.

    failure: how the script failed; None if that is not known.
    path: folders that the script added to the import path.
    with_data: the script with literals in the place of data from files, arguments and the environment; "" if it is not
    known.
    """

    failure: Failure | None = None
    seconds: float = 0.0
    path: tuple[str, ...] = ()
    with_data: str = ""


def first_failure(
    lab: SourceLab, source: str, of_backend: Case | None, known: KnownRun, said: str
) -> tuple[str, Failure]:
    """Run the whole script; return the source to reduce, and its failure, which `lab` then looks for.

    Raises NoRepro if the script does not show the failure in an empty folder, or in another way each time.
    Raises FailsByItself if the script fails in an empty folder in eager mode too.
    """
    lab.watches_backends = True
    source, first = _shows(lab, [known.with_data, source] if known.with_data else [source], of_backend, known)
    failure = _failure(first)
    shorter = _which_passes_in_eager(lab, source, failure, said)
    if shorter != source:
        source, first = _shows(lab, [shorter], of_backend, known)
        failure = _failure(first)
    failure = replace(failure, fingerprint=replace(failure.fingerprint, at_traced=True))
    lab.sought = failure.fingerprint
    lab.missing = missing_names(source)
    lab.watches_backends = not _type(failure.fingerprint).startswith(ERRORS_OF_DYNAMO)
    lab.conditions = [SameLine(first)]
    if (check := SameCheck(first)).applies:
        lab.conditions.append(check)
    if lab.watches_backends:
        backends = SameBackends(first, SourceRun(source, lab.run(source)))
        lab.watches_runs = backends.watches_runs
        lab.conditions.append(backends)
    lab.leave_out_backends(source)
    if not lab.holds([source])[0]:
        raise NoRepro(f"{said} fails in another way each time it is run")
    return source, failure


def _shows(lab: SourceLab, sources: list[str], of_backend: Case | None, known: KnownRun) -> tuple[str, SourceRun]:
    """Return the first of the sources that shows the expected failure, and its run. Raises NoRepro."""
    errors: list[NoRepro] = []
    for source in sources:
        run = SourceRun(source, lab.run(source))
        try:
            _expect(seen(run.end, ()), of_backend, known)
        except NoRepro as error:
            errors.append(error)
            continue
        return source, run
    raise errors[-1]


def _failure(run: SourceRun) -> Failure:
    failure = seen(run.end, ())
    assert failure is not None, "the run was found to fail"
    return failure


def _expect(failure: Failure | None, of_backend: Case | None, known: KnownRun) -> None:
    """Raise NoRepro unless this is the failure of the script, as far as known, or of its backend call."""
    where = "run in an empty folder, as for a reduction of its source, the script"
    if failure is None:
        raise NoRepro(
            f"{where} does not fail: it needs files beside it, catches its own failure, or fails only in its first run"
        )
    if failure.fingerprint.kind is Kind.TIMEOUT:
        raise NoRepro(f"{where} does not end: {failure.message}. The source of a script that hangs is not reduced")
    if "FileNotFoundError" in failure.fingerprint.types:
        raise NoRepro(
            f"{where} shows {failure.line}. It needs files beside it: with their absolute paths it can be run there"
        )
    sought = of_backend.failure if of_backend is not None else known.failure
    if sought is not None and not shows_failure_of_call(sought.fingerprint, failure.fingerprint):
        raise NoRepro(f"{where} shows {failure.line}, and not {sought.line}")


def shows_failure_of_call(sought: Fingerprint, shown: Fingerprint) -> bool:
    """Return whether a run of the script shows the captured failure of its backend call.

    Frames may differ: torch.fx runs a module, when it raises, in another way than in the observed run.
    """
    alike = same(sought, replace(shown, stage=sought.stage), renamed={})
    return alike or (bool(shown.types) and (sought.types, sought.message) == (shown.types, shown.message))


def _type(fingerprint: Fingerprint) -> str:
    """Return the type of the innermost exception; "" for a death."""
    return fingerprint.types[-1] if fingerprint.types else ""


def _which_passes_in_eager(lab: SourceLab, source: str, failure: Failure, said: str) -> str:
    """Return the source, or its statements up to the failing statement, whichever passes in eager mode first.

    Raises FailsByItself if both fail.
    """
    in_eager = seen(lab.run(source, compiled=False), ())
    if in_eager is None:
        return source
    shorter = up_to_failing_statement(source, failure)
    if shorter != source and passed(lab.run(shorter, compiled=False)):
        return shorter
    line = failure.line if in_eager.line == failure.line else f"{in_eager.line}\nUnder torch.compile: {failure.line}"
    raise FailsByItself(f"{said} fails by itself, without torch.compile as well: {line}")


def lines_of(failure: Failure) -> list[int]:
    """Return the script's line numbers in the traceback, innermost last."""
    return [int(line) for line in re.findall(rf'File "{FILE}", line (\d+)', failure.traceback)]


def up_to_failing_statement(source: str, failure: Failure) -> str:
    """Return the source up to the failing statement of the module."""
    in_module = re.findall(rf'File "{FILE}", line (\d+),? in <module>', failure.traceback)
    if not in_module:
        return source
    last = int(in_module[-1])
    ends = [node.end_lineno for node in ast.parse(source).body if node.lineno <= last]
    return "".join(source.splitlines(keepends=True)[: ends[-1]])
