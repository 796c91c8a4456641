"""Compare the variables of a compiled run of a script with those of a run in eager mode.

This finds wrong values that no graph shows. A script with such a value is reduced with a check of it.
"""

from __future__ import annotations

import itertools
import os
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import libcst as cst

from minifier.capturing.capture import FoundFailures, run_in_eager
from minifier.capturing.script import Program
from minifier.capturing.watched_script import RESULT, Moment, Note, Notes, Place
from minifier.data.case.run_folder import RunFolder
from minifier.data.case.store import write_atomically
from minifier.errors import NoRepro, NothingToReduce
from minifier.flow.attempt import Attempt, Run
from minifier.flow.whole_script import minify_script, reduce_to_script
from minifier.process.progress import Ui, counted
from minifier.repro.report.outcome import Outcome
from minifier.repro.source.eager_check import CheckedScript, Sight, with_check
from minifier.torch_side.compare.visible import Leaf, Unlike, differences, is_noise, noise_in, rounding_in, scale

_MAX_SIGHTS = 4  # for which a check is tried
_NAMES = re.compile(r"[A-Za-z_]\w*")
_FUNCTIONS = ("len", "type", "sorted", "torch", "as_tensor")  # in expressions of what a script sees
_SHARE_OF_ERROR = 0.1  # is the tolerance of the check


@dataclass(frozen=True, slots=True)
class ComparedScript:
    """What a script sees otherwise than in eager mode, the first differences first, and a sentence about it."""

    sights: tuple[Sight, ...] = ()
    said: str = ""


def compare_script(found: FoundFailures, ui: Ui) -> ComparedScript:
    """Run the script in eager mode, and compare what it sees with the notes of its comparing run.

    A difference does not count if a second run in eager mode, rounded in another way, differs as much.
    """
    compiled = Notes.read(found.compared.folder) if found.compared is not None else None
    if compiled is None:
        return ComparedScript()
    captured = run_in_eager(found, "in-eager-watched", ui, watched=True)
    eager = Notes.read(captured.folder)
    if eager is None or captured.end.interrupted:
        return ComparedScript()
    seen: tuple[Sight, ...] = ()
    if next(sights(compiled, eager, eager), None) is not None:
        rounded = run_in_eager(found, "in-eager-rounded", ui, watched=True, other_rounding=True)
        other = Notes.read(rounded.folder)
        seen = tuple(itertools.islice(sights(compiled, eager, other), _MAX_SIGHTS)) if other is not None else ()
    compared = sum(1 for _ in _pairs(compiled, eager))
    said = (
        f"Compared: what the script sees of its variables, at {counted(compared, 'moment')}. It agreed with eager mode."
    )
    if compared < len(eager.notes):
        said += " Later ones were not compared: from there on the runs draw other random numbers, or go another way."
    return ComparedScript(seen, said)


def _pairs(compiled: Notes, eager: Notes) -> Iterator[tuple[int, Note, Note]]:
    """Yield the number of each note, with both runs' notes.

    End where one run is at another place than the other, or has drawn other random numbers.
    """
    for number, (ours, theirs) in enumerate(zip(compiled.notes, eager.notes, strict=False)):
        if (ours.moment, ours.place) != (theirs.moment, theirs.place):
            return
        if compiled.draws.get(number) != eager.draws.get(number):
            return
        yield number, ours, theirs


def sights(compiled: Notes, eager: Notes, other: Notes) -> Iterator[Sight]:
    """Yield what a run sees otherwise than the eager run, at most one value of each note, the first notes first.

    `other` is a second eager run, rounded in another way: what differs between both as much is left out, and so are
    variables that a backend's own code changes.
    """
    pairs = list(_pairs(compiled, eager))
    places: set[Place] = set()
    for number, ours, theirs in pairs:
        again = other.notes[number] if number < len(other.notes) else None
        if again is None or (again.moment, again.place) != (theirs.moment, theirs.place):
            return
        unlike = [
            each
            for each in differences(ours.leaves, theirs.leaves)
            if _variable(each.expression) not in compiled.of_backends
            and not is_noise(each, theirs.leaves, again.leaves)
        ]
        shown = [each for each in unlike if each.compiled and each.eager] or unlike
        if shown:
            is_later = ours.moment is Moment.BEFORE and ours.place in places
            chosen = min(shown, key=_order)
            sight = _sight(ours, chosen, {**ours.leaves, **theirs.leaves}, is_later)
            yield replace(sight, noise=noise_in(chosen.expression, theirs.leaves, again.leaves))
        places.add(ours.place)
    went_alike = len(pairs) >= len(eager.notes) - 1  # but for the end
    if eager.error in ("", "SystemExit") or compiled.error or other.error != eager.error or not went_alike:
        return
    if not compiled.of_backends:
        place = replace(eager.notes[-1].place, line=eager.line, function=("", 0))
        yield Sight(Moment.ENDED, place, "", "", "", error=eager.error)


def _variable(expression: str) -> str:
    """Return the variable that an expression leads from: `cache` of `len(cache.keys)`."""
    return next((name for name in _NAMES.findall(expression) if name not in _FUNCTIONS), "")


def _order(unlike: Unlike) -> tuple[bool, bool, bool, int]:
    """Sort a call's result first, then numbers, then variables and gradients, from which parameters are computed."""
    is_result = re.match(rf"{RESULT}\b", unlike.expression) is not None
    is_part = not (unlike.expression.isidentifier() or unlike.expression.endswith(".grad"))
    return not is_result, not unlike.is_number, is_part, len(unlike.expression)


def _sight(note: Note, unlike: Unlike, leaves: Mapping[str, Leaf], is_later: bool) -> Sight:
    """Return the sight of a value. A tensor that only one of the runs has is compared too, where both have it."""
    leaf = leaves.get(unlike.expression)
    is_tensor = f"{unlike.expression}.dtype" in leaves
    tolerance, relative = None, 0.0
    if leaf is not None and (unlike.is_number or is_tensor):
        size = unlike.error if unlike.is_number else scale(leaf) or 1.0
        tolerance = 0.5 if leaf.is_exact else min(size, 1e30) * _SHARE_OF_ERROR
        relative = 0.0 if leaf.is_exact else rounding_in(leaf)
    seen, off = (unlike.expression, unlike.compiled, unlike.eager), unlike.error if unlike.is_number else 0.0
    return Sight(note.moment, note.place, *seen, tolerance, is_tensor, is_later=is_later, relative=relative, off=off)


def minify_compared(found: FoundFailures, seen: Sequence[Sight], folder: RunFolder, run: Run) -> Outcome:
    """Reduce the script with a check of the first value that it sees otherwise than in eager mode, and report.

    Raises NoRepro with the reasons if no check shows the difference.
    """
    return _first(_checked(found, seen), lambda script, it: minify_script(script, folder, run, checked=it))


def reduce_compared_script(attempt: Attempt) -> Attempt:
    """Reduce the script of a wrong result that no repro of its graph shows, with a check of what the script sees.

    Raises NoRepro if the script sees nothing else than in eager mode, or no check shows it.
    """
    assert attempt.call is not None, "the script is known"
    found, run = attempt.call.found, attempt.run
    compared = compare_script(found, run.ui)
    if not compared.sights:
        raise NoRepro(f"the script sees no wrong value. {compared.said}".strip())
    run.ui.say(f"the script does not see what it sees in eager mode: {compared.sights[0]}")

    def reduced(script: FoundFailures, it: CheckedScript) -> Attempt:
        captured = replace(script.captured, failure=None)  # the check's is not known yet
        backend = attempt.case.backend
        again = reduce_to_script(script.program, attempt.folder, run, backend, None, captured, it)
        if again.repro is None:
            raise NoRepro(again.reason)
        return replace(again, call=attempt.call, capture_seconds=attempt.capture_seconds, fallbacks=attempt.fallbacks)

    return _first(_checked(found, compared.sights), reduced)


_Reduced = TypeVar("_Reduced")


def _first(
    scripts: Iterable[tuple[FoundFailures, CheckedScript]], reduce: Callable[[FoundFailures, CheckedScript], _Reduced]
) -> _Reduced:
    """Return what `reduce` makes of the first script that it can reduce. Raises NoRepro."""
    reasons: list[str] = []
    for script, it in scripts:
        try:
            return reduce(script, it)
        except (NoRepro, NothingToReduce) as error:
            reasons.append(str(error))
    raise NoRepro("\n".join(dict.fromkeys(reasons)) or "the place is not in the source of the script")


def _checked(found: FoundFailures, seen: Sequence[Sight]) -> Iterator[tuple[FoundFailures, CheckedScript]]:
    """Yield the script with a check of each value, written to a file of its own. Raises NoRepro if it has no source."""
    program = found.program
    home = str(Path(program.file).resolve().parent)
    captured = replace(found.captured, path=tuple(dict.fromkeys((home, *found.captured.path))))
    try:
        for it in (form for sight in seen for form in _forms(program.source(), sight)):
            path = Path(tempfile.mkdtemp(prefix="checked-", dir=found.work)) / os.path.basename(program.file)
            write_atomically(path, it.text)
            checked = Program(str(path), program.arguments, given=program.given, made_of=program.said)
            yield replace(found, program=checked, captured=captured), it
    except cst.ParserSyntaxError as error:
        raise NoRepro(f"the script's source cannot be parsed: {error}") from None


def _forms(source: str, sight: Sight) -> list[CheckedScript]:
    """Return the script with a check of the value; nothing if its names cannot be those of a function."""
    try:
        return list(with_check(source, sight))
    except SyntaxError:
        return []
