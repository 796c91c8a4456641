"""Other starting points for a Case whose whole graph, handed to the backend as it is, does not show its failure.

`premises` lists them in the order in which they are tried. One process probes them, each once, up to the first that
shows the failure, which is reduced. If that reduction fails, the rest is probed likewise.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from minifier.capturing.read_run import CapturedCallAhead, read_calls_ahead, with_calls_ahead
from minifier.capturing.slicing import folders_imported_from, with_definitions
from minifier.capturing.slicing.cases import import_lines
from minifier.data.case import Call, Case, Level, Ones
from minifier.data.case.calls import called, paused
from minifier.data.case.store import load
from minifier.data.case.symbolic_sizes import goes_through_dynamo
from minifier.errors import NoRepro, OtherMessage, StoppedAtOnce, StoppedEarly
from minifier.flow.attempt import Attempt
from minifier.flow.reduce_in_child import add_probes, find_first_shown, reduce_changed, reduce_further
from minifier.flow.whole_script import literals_of
from minifier.process.progress import counted
from minifier.reduction.flakiness import longest_pause

_MIN_OPS = 6  # of a reduced graph; a smaller one is read all the same
_MIN_PROPORTION = 0.5  # of its ops: so many parts of it fail with messages of their own

_OTHER_VALUES = ((Ones.INPUTS, "its inputs"), (Ones.ALL, "its inputs and parameters"))


@dataclass(frozen=True, slots=True)
class Premise:
    """A starting point, made from the captured Case by `change`. Reduced, it stands for that Case if it `replaces` it.

    `name` completes the sentence "the failure shows with ...".
    """

    name: str
    change: Callable[[Case], Case]
    replaces: bool = True


def premises(attempt: Attempt) -> Iterator[Premise]:
    """Yield the premises that apply to an attempt whose reduction ended with an error, in their order."""
    if isinstance(attempt.error, NoRepro):
        calls = _calls_ahead(attempt)
        for lines in _other_imports(attempt):
            yield Premise(
                "the script's own imports ahead of the backend's", functools.partial(_with_imports, lines=lines)
            )
        if calls:
            with_calls = _with_calls(attempt, calls)
            yield Premise("the calls ahead of the failing one", with_calls)
            yield Premise("those calls, and a pause before the failing one", lambda case: _with_pause(with_calls(case)))
        if attempt.case.level is Level.DYNAMO and not goes_through_dynamo(attempt.case):
            yield Premise("torch.compile on the graph's function", _through_dynamo)
            if calls:
                yield Premise(
                    "torch.compile after the calls ahead of the failing one",
                    lambda case: with_calls(_through_dynamo(case)),
                )
        if attempt.case.level is Level.DYNAMO and attempt.case.calls > 1:
            for ones, named in _OTHER_VALUES:
                change = functools.partial(_with_other_values, ones=ones)
                yield Premise(f"an earlier call of the same code with other values of {named}", change)
    if attempt.folder.has_aten:
        aten = attempt.folder.aten
        yield Premise("the ATen graph that AOTAutograd made of Dynamo's", lambda _: load(aten), replaces=False)
    if isinstance(attempt.error, OtherMessage) and not attempt.case.failure.fingerprint.any_message:
        yield Premise(
            "any message from the same function that shares half of its words",
            lambda case: _with_any_message(_through_dynamo(case)),
        )


def reduce_from_premises(attempt: Attempt) -> Attempt:
    """Reduce from the first premise that shows the failure; return the attempt as it was if none does.

    If the reduction from that premise fails after all, the next premises are probed.
    """
    left, ui = list(premises(attempt)), attempt.run.ui
    if left:
        ui.say(attempt.reason)
        ui.say(f"trying {counted(len(left), 'other starting point')}")
        for premise in left:
            ui.detail(f"starting point: {premise.name}")
    probes: dict[str, int] = {}
    while left and attempt.run.settings.seconds_left:
        cases = (premise.change(attempt.case) for premise in left)  # made in the child
        shown = find_first_shown(attempt, cases, len(left))
        probes = add_probes(probes, shown.probes)
        if shown.position < 0:
            break
        premise = left[shown.position]
        left = left[shown.position + 1 :]
        ui.say(f"the failure shows with {premise.name}: going on with that")
        again = _reduced_from(premise, attempt)
        if again.reduced is not None:
            summary = replace(again.reduced.summary, probes=add_probes(again.reduced.summary.probes, probes))
            return replace(again, reduced=replace(again.reduced, summary=summary)).took(premise.name)
        ui.say(str(again.error))
    return attempt


def _reduced_from(premise: Premise, attempt: Attempt) -> Attempt:
    if premise.replaces:
        return reduce_changed(attempt, premise.change)
    return reduce_further(attempt, premise.change(attempt.case), attempt.folder.path)


def _calls_ahead(attempt: Attempt) -> tuple[CapturedCallAhead, ...]:
    """Return the backend's calls ahead of the failing call; none if the Case has them already."""
    call = attempt.call
    if call is None or call.unsaved or attempt.case.others:
        return ()
    return read_calls_ahead(call.found.graphs, call.failing.number, call.failing.call)


def _with_calls(attempt: Attempt, calls: tuple[CapturedCallAhead, ...]) -> Callable[[Case], Case]:
    path = attempt.call.found.captured.path if attempt.call is not None else ()
    source, literals = attempt.program.source(), literals_of(attempt.program, path)
    return lambda case: with_definitions(with_calls_ahead(case, calls), source, literals)


def _other_imports(attempt: Attempt) -> tuple[tuple[str, ...], ...]:
    """Return the imports of the script that may have to precede the backend's, the fewest first."""
    if attempt.asked is None or attempt.case.backend.ahead:
        return ()
    try:
        effects, every = import_lines(attempt.asked.program.source())
    except SyntaxError:
        return ()
    known = {*attempt.case.backend.imports, "import torch"}
    return tuple(lines for lines in dict.fromkeys((effects, every)) if set(lines) - known)


def _with_imports(case: Case, lines: tuple[str, ...]) -> Case:
    folders = tuple(dict.fromkeys((*case.backend.folders, *folders_imported_from("\n".join(lines), case.script.path))))
    return replace(case, backend=replace(case.backend, ahead=lines, folders=folders))


def _with_pause(case: Case) -> Case:
    """Let as much time pass before the failing call as in the script: a backend may compile in the background."""
    return paused(case, longest_pause(case)) if case.before else case


def _with_other_values(case: Case, ones: Ones) -> Case:
    """Make one earlier call, with other values: compiled code may keep those of the call that compiled it."""
    case = called(case, 1)
    return replace(case, before=(*case.before, Call(ones=ones)))


def _through_dynamo(case: Case) -> Case:
    """Probe a graph of Dynamo's through torch.compile, which then calls the backend as in the script."""
    return replace(case, through_dynamo=True) if case.level is Level.DYNAMO else case


def _with_any_message(case: Case) -> Case:
    fingerprint = replace(case.failure.fingerprint, any_message=True)
    return replace(case, failure=replace(case.failure, fingerprint=fingerprint))


def is_held_up(attempt: Attempt) -> bool:
    """Whether many graphs smaller than the reduced graph raised the same type of exception in the same function, each
    with its own message."""
    if attempt.reduced is None or attempt.case.failure.fingerprint.any_message:
        return False
    summary = attempt.reduced.summary
    near = sum(other.near for other in summary.others)
    is_large = summary.ops_after >= _MIN_OPS and near >= _MIN_PROPORTION * summary.ops_after
    return is_large and not summary.stopped_because


def reduce_with_any_message(attempt: Attempt) -> Attempt:
    """Reduce again without comparing whole messages; return the attempt as it was if that fails.

    The first interrupt is a failure like any other: what was reduced before stands.
    """
    try:
        again = reduce_changed(attempt, _with_any_message)
    except StoppedAtOnce:
        raise
    except StoppedEarly:
        return attempt
    return again.took("left the message out of the failure's identity") if again.reduced is not None else attempt
