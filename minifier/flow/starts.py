"""The starts: what a reduction and a repro begin with, in the order in which they are tried: `STARTS`, at the end.

Most starts change the Case and reduce it; a repro of what is left is searched then. The first repro that is verified
ends the run. The first reduction is what the later starts build on; it is reported if no start leads to a repro.
"""

from __future__ import annotations

import functools
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from minifier.capturing.read_run import CapturedCallAhead, read_calls_ahead, with_calls_ahead
from minifier.capturing.slicing.cases import folders_imported_from, import_lines, with_definitions
from minifier.data.case import EAGER, Call, Case, Ones
from minifier.data.case.calls import called, paused
from minifier.data.case.graph import is_of_transform
from minifier.data.case.store import load, save
from minifier.data.case.switches import of_script, others
from minifier.data.case.symbolic_sizes import goes_through_dynamo
from minifier.data.failure import Stage
from minifier.data.settings import Settings
from minifier.errors import (
    ExitCode,
    LimitReached,
    MachineFailed,
    MinifyError,
    NoRepro,
    OtherMessage,
    StoppedAtOnce,
    StoppedEarly,
    ToolFailed,
)
from minifier.flow.attempt import Attempt, Reduced
from minifier.flow.compared_script import reduce_compared_script
from minifier.flow.keep_case import RECORDED, may_have_lost_inputs, with_inputs_recorded
from minifier.flow.reduce_in_child import (
    Variables,
    add_probes,
    is_only_live,
    limited,
    reduce_in_child,
    reduce_with_live_backend,
    shown_once,
    take_as_captured,
    tell_size,
)
from minifier.flow.repro_search import in_place_of, search_for
from minifier.flow.whole_script import is_of_script, reduce_script_instead
from minifier.reduction.flakiness import longest_pause
from minifier.reduction.passes.state import unset
from minifier.reduction.passes.table import OF_VALUES
from minifier.reduction.simplify_and_prove import STOPPED
from minifier.search import Ending, fewest

_MIN_OPS = 6  # of a reduced graph; a smaller one is read all the same
_MIN_PROPORTION = 0.5  # of its ops: so many parts of it fail with messages of their own
_MAX_TRANSFORM_OPS = 4  # of a graph that is read nevertheless
_MAX_TRANSFORM_PROBES = 30  # of a graph with more of them, before its script is reduced: a fault of few ops is found


@dataclass(frozen=True, slots=True)
class Start:
    """A start, for an attempt to which it `applies`.

    `take` returns the attempt with another reduction, and perhaps with a repro of it already. It raises NoRepro, or
    returns the attempt as it is, if the failure does not show in this way. `when` says in words when it applies. What
    `is_last` is begun even after the time of the run, and takes little time then. What `is_usual` is a step of a run
    without obstacles: the report does not list its name, and its reduction stays even if no repro comes of it.
    """

    name: str
    when: str
    applies: Callable[[Attempt], bool]
    take: Callable[[Attempt], Attempt]
    is_last: bool = False
    is_usual: bool = False


def through_starts(attempt: Attempt) -> Attempt:
    """Return the attempt with the first verified repro that a start leads to; without one, with the reasons."""
    is_cut_off = False
    for start in STARTS:
        is_reportable = attempt.repro_result is not None or attempt.error is not None
        if attempt.repro is not None or (is_reportable and attempt.run.interrupted.is_set()):
            break
        if not start.applies(attempt):
            continue
        if is_reportable and not (start.is_last or _has_time(attempt)):
            is_cut_off = True
            continue
        attempt = _after(start, attempt)
    if is_cut_off and attempt.repro is None:
        reason = f"{attempt.reason}\nThe time of the run is used up: not all starts were tried (--budget)"
        return replace(attempt, error=NoRepro(reason))
    return attempt


def _has_time(attempt: Attempt) -> bool:
    return not attempt.run.interrupted.is_set() and attempt.run.settings.seconds_left > 0


def _after(start: Start, attempt: Attempt) -> Attempt:
    """Take the start. What it leads to stands for the attempt if it has a repro, or is the first reduction."""
    run = attempt.run
    if not start.is_usual and attempt.reduced is not None:
        run.ui.say(f"{start.when}: going on to {start.name}")
    with _minimal_put_back(attempt, start.take is not _find_repro) as undo:
        again = run.after(functools.partial(_taken, start), attempt)
        if again.reduced is attempt.reduced:  # a repro of the same Case was sought, or the start came to nothing
            return _listed(start, again) if again.repro is not None else again
        stays = attempt.reduced is None or start.is_usual
        if stays:
            undo.pop_all()
        if attempt.reduced is None:
            tell_size(again)
        elif again.repro_result is attempt.repro_result:  # no repro of the new Case was sought
            again = run.after(_find_repro, again)
        is_rarer = not stays and again.reduction.minimal.rate < attempt.reduction.minimal.rate
        if not (stays or is_rarer or again.repro is not None):  # that a failure is rarer is told without a repro too
            return attempt
        undo.pop_all()
    return _listed(start, again)


def _listed(start: Start, attempt: Attempt) -> Attempt:
    return attempt if start.is_usual else attempt.took(start.name)


def _taken(start: Start, attempt: Attempt) -> Attempt:
    try:
        return start.take(attempt)
    except MinifyError as error:
        if error.exit_code is not ExitCode.NO_REPRO:
            raise
        attempt.run.ui.say(f"no repro this way: {error}")
        return attempt


@contextmanager
def _minimal_put_back(attempt: Attempt, is_changed: bool) -> Iterator[ExitStack]:
    """Put the folder minimal/, if it is changed, back at the end, unless the yielded stack's callbacks are popped."""
    folder = attempt.folder
    with ExitStack() as stack, ExitStack() as undo:
        if attempt.reduced is not None and is_changed:
            before = stack.enter_context(folder.scratch("before"))
            shutil.copytree(folder.minimal, before, dirs_exist_ok=True)
            undo.callback(before.rename, folder.minimal)
            undo.callback(shutil.rmtree, folder.minimal)
        yield undo


def reduce(attempt: Attempt) -> Attempt:
    """Reduce the attempt's Case; with few probes, one by one, if it may be left with ops of torch.func's transforms.

    An error that another start may get around becomes the attempt's error: the graph does not show the failure again,
    say. Raises NothingToReduce if the program fails without the backend, StoppedEarly, and all other errors.
    """
    settings = attempt.run.settings
    if settings.max_probes is None and _has_transforms(attempt.case) and is_of_script(attempt):
        settings = replace(settings, max_probes=_MAX_TRANSFORM_PROBES, workers=1)
    try:
        reduced = reduce_in_child(attempt, attempt.case, attempt.folder.path, settings)
    except MinifyError as error:
        if error.exit_code is not ExitCode.NO_REPRO:
            raise
        return replace(attempt, error=error)
    return replace(attempt, reduced=reduced, error=None)


def _is_unreduced(attempt: Attempt) -> bool:
    return attempt.is_probed and attempt.reduced is None and attempt.error is None


def _has_transforms(case: Case) -> bool:
    return sum(map(is_of_transform, case.graph.ops)) > _MAX_TRANSFORM_OPS


def _is_left_with_transforms(attempt: Attempt) -> bool:
    return attempt.reduced is not None and _has_transforms(attempt.reduced.minimal)


def _short_script(attempt: Attempt) -> Attempt:
    """Reduce the script, which says in a name what its graph says in many ops."""
    again = reduce_script_instead(attempt)
    if again.repro is None:
        raise NoRepro(again.reason)
    return again


def _is_cut_short(attempt: Attempt) -> bool:
    stopped = attempt.reduced is not None and attempt.reduced.summary.stopped_because == STOPPED[Ending.MAX_PROBES]
    return stopped and attempt.run.settings.max_probes is None and _has_time(attempt)


def _reduced(
    attempt: Attempt, case: Case, out: Path | None = None, settings: Settings | None = None, *, doubtful: bool = False
) -> Reduced:
    """Reduce another Case than the attempt's. Raises NoRepro for whatever lies in the Case or in the program."""
    try:
        return reduce_in_child(attempt, case, out or attempt.folder.path, settings, doubtful=doubtful)
    except (StoppedEarly, MachineFailed, ToolFailed):
        raise
    except MinifyError as error:
        raise NoRepro(str(error)) from None


def _has_varying_messages(attempt: Attempt) -> bool:
    """Whether many smaller graphs raised the same type of exception in the same function, but with other messages."""
    if attempt.reduced is None or attempt.repro_result is not None:
        return False
    summary = attempt.reduced.summary
    near = sum(other.near for other in summary.others)
    is_large = summary.ops_after >= _MIN_OPS and near >= _MIN_PROPORTION * summary.ops_after
    return is_large and not summary.stopped_because and not attempt.case.failure.fingerprint.any_message


def _without_message(attempt: Attempt) -> Attempt:
    """Reduce again without comparing whole messages."""
    attempt.run.ui.say("smaller graphs fail in the same function with other messages: trying again without the message")
    again = _from_case(attempt, _with_any_message(attempt.case))
    tell_size(again)
    return again.took("left the message out of the failure's identity")


def _from_case(attempt: Attempt, case: Case) -> Attempt:
    """Reduce another Case, which takes the place of the captured one, in the folder case/ too."""
    reduced = _reduced(attempt, case)
    summary = replace(reduced.summary, probes=add_probes(reduced.summary.probes, attempt.probes))
    save(case, attempt.folder.case)
    return replace(attempt, case=case, reduced=replace(reduced, summary=summary), error=None)


def _premise(name: str, when: str, applies: Callable[[Attempt], bool], change: Callable[[Attempt], Case]) -> Start:
    """Build the start from another Case, for a graph that does not show its failure as it is: it lacks something.

    The Case is probed once, with an import of the backend, and reduced if it shows the failure. `name` completes the
    sentence "the failure shows with ...".
    """

    def take(attempt: Attempt) -> Attempt:
        ui = attempt.run.ui
        if not attempt.probes:
            ui.say(attempt.reason)
        ui.detail(f"starting point: {name}")
        case = change(attempt)
        shown = shown_once(attempt, case, name)
        attempt = replace(attempt, probes=add_probes(attempt.probes, shown.probes))
        if not shown.holds:
            return attempt
        ui.say(f"the failure shows with {name}: going on with that")
        return _from_case(attempt, case)

    return Start(name, when, lambda attempt: attempt.reduced is None and attempt.is_probed and applies(attempt), take)


def _shows_nothing_as_captured(attempt: Attempt) -> bool:
    """Whether the graph as captured did not show the failure."""
    return isinstance(attempt.error, NoRepro)


def _is_called_bare(attempt: Attempt) -> bool:
    return _shows_nothing_as_captured(attempt) and not goes_through_dynamo(attempt.case)


def _is_called_again(attempt: Attempt) -> bool:
    return _shows_nothing_as_captured(attempt) and attempt.case.calls > 1


def _other_imports(attempt: Attempt) -> tuple[tuple[str, ...], ...]:
    """Return the imports of the script that may have to precede the backend's: those whose names it never reads, and
    all."""
    if not _shows_nothing_as_captured(attempt) or attempt.asked is None or attempt.case.backend.ahead:
        return ()
    try:
        effects, every = import_lines(attempt.asked.program.source())
    except SyntaxError:
        return ()
    known = {*attempt.case.backend.imports, "import torch"}
    return tuple(lines for lines in dict.fromkeys((effects, every)) if set(lines) - known)


def _imports(number: int) -> Start:
    def change(attempt: Attempt) -> Case:
        case, lines = attempt.case, _other_imports(attempt)[number]
        folders = folders_imported_from("\n".join(lines), case.script.path)
        backend = replace(case.backend, ahead=lines, folders=tuple(dict.fromkeys((*case.backend.folders, *folders))))
        return replace(case, backend=backend)

    which = ("the script's imports whose names it never reads", "all imports of the script")[number]
    return _premise(
        f"{which}, ahead of the backend's",
        "the script has other imports than the backend's",
        lambda attempt: len(_other_imports(attempt)) > number,
        change,
    )


def _calls_ahead(attempt: Attempt) -> tuple[CapturedCallAhead, ...]:
    """Return the backend's calls ahead of the failing call; none if the Case has them already."""
    call = attempt.call
    if not _shows_nothing_as_captured(attempt) or call is None or attempt.case.others:
        return ()
    return read_calls_ahead(call.found.captured.folder, call.failing.number, call.failing.call)


def _has_calls_ahead(attempt: Attempt) -> bool:
    return bool(_calls_ahead(attempt))


def _with_calls(attempt: Attempt) -> Case:
    assert attempt.call is not None, "there are calls ahead of it"
    case = with_calls_ahead(attempt.case, _calls_ahead(attempt))
    return with_definitions(case, attempt.program.source())


def _with_calls_and_pause(attempt: Attempt) -> Case:
    """Let as much time pass before the failing call as in the script: a backend may compile in the background."""
    case = _with_calls(attempt)
    return paused(case, longest_pause(case)) if case.before else case


def _other_values(ones: Ones) -> Callable[[Attempt], Case]:
    """Make one earlier call, with other values: compiled code may keep those of the call that compiled it."""

    def change(attempt: Attempt) -> Case:
        case = called(attempt.case, 1)
        return replace(case, before=(*case.before, Call(ones=ones)))

    return change


def _through_dynamo(case: Case) -> Case:
    """Probe a graph of Dynamo's through torch.compile, which then calls the backend as in the script."""
    return replace(case, through_dynamo=True)


def _with_any_message(case: Case) -> Case:
    fingerprint = replace(case.failure.fingerprint, any_message=True)
    return replace(case, failure=replace(case.failure, fingerprint=fingerprint))


def _record_inputs(attempt: Attempt) -> Attempt:
    attempt.run.ui.say("no failure, but the call may have had other inputs: running the script again to keep them")
    again = with_inputs_recorded(attempt)
    if again.error is not None:
        return again
    again = reduce(again)
    return again if again.reduced is not None else again.took(RECORDED)


def _find_repro(attempt: Attempt) -> Attempt:
    if not _has_time(attempt) and (dropped := _dropped_variables(attempt)):  # nor to ask which the failure takes
        attempt = _with_pairs(attempt, dropped)
    return replace(attempt, repro_result=search_for(attempt, attempt.reduction.minimal).search())


def _with_eager(attempt: Attempt) -> Attempt:
    """Take eager for the backend: torch.compile itself fails, and a control runs uncompiled."""
    backend, reduced = in_place_of(attempt.case.backend, EAGER), attempt.reduction
    minimal = replace(reduced.minimal, backend=backend)
    save(minimal, attempt.folder.minimal)
    case = replace(attempt.case, backend=backend)
    return replace(attempt, case=case, reduced=replace(reduced, minimal=minimal))


def _is_shown_by_eager(attempt: Attempt) -> bool:
    result = attempt.repro_result
    return result is not None and result.in_control and not result.case.is_of_torch


def _dropped_variables(attempt: Attempt) -> Variables:
    """Return the variables that the script set and the reduced Case does not: what a backend reads when it is imported
    shows in no fork of a process that has imported it."""
    if attempt.reduced is None:
        return ()
    held = dict(attempt.reduced.minimal.state.environment)
    return tuple(pair for pair in of_script(attempt.reduced.source.state.environment) if pair[0] not in held)


def _case_with(case: Case, pairs: Variables) -> Case:
    return replace(case, state=replace(case.state, environment=tuple(sorted((*case.state.environment, *pairs)))))


def _with_pairs(attempt: Attempt, pairs: Variables) -> Attempt:
    """Return the attempt with variables that the reduced Case sets again."""
    reduced, folder = attempt.reduction, attempt.folder
    save(_case_with(reduced.minimal, pairs), folder.minimal)
    summary = replace(reduced.summary, needs=(*reduced.summary.needs, *(unset(name) for name, _ in pairs)))
    return replace(attempt, reduced=replace(reduced, summary=summary, minimal=load(folder.minimal)))


def _with_variables_of_script(attempt: Attempt) -> Attempt:
    dropped, minimal = _dropped_variables(attempt), attempt.reduction.minimal

    def shows(pairs: Variables) -> bool:
        return shown_once(attempt, _case_with(minimal, pairs), "the variables that the script sets").holds

    try:
        return _with_pairs(attempt, fewest(dropped, shows, len(dropped))) if shows(dropped) else attempt
    except NoRepro:  # the process died, perhaps for want of a variable: the repro sets all
        return _with_pairs(attempt, dropped)


def _with_variables(attempt: Attempt) -> Attempt:
    result = search_for(attempt, attempt.reduction.minimal).with_variables()
    return replace(attempt, repro_result=result) if result is not None else attempt


def _as_flaky(attempt: Attempt) -> Attempt:
    """Measure the rate of a Case whose script ran to its end although all probes had failed."""
    settings, reduced = attempt.run.settings, attempt.reduction
    settings = replace(settings, budget=settings.flaky_seconds_for(attempt.case.script.seconds))
    with attempt.folder.scratch("flaky") as place:
        flaky = _reduced(attempt, reduced.minimal, place, settings, doubtful=True)
        if flaky.minimal.rate >= 1.0:
            return attempt
        save(flaky.minimal, attempt.folder.minimal)
    return replace(attempt, reduced=replace(reduced, minimal=load(attempt.folder.minimal)))


def _has_simple_values(attempt: Attempt) -> bool:
    """Whether a whole reduction has simplified sizes, dtypes or arguments."""
    settings, reduced = attempt.run.settings, attempt.reduced
    is_whole = reduced is not None and not reduced.summary.stopped_because
    return is_whole and any(map(settings.wants, OF_VALUES))


def _with_captured_values(attempt: Attempt) -> Attempt:
    """Reduce the ops alone."""
    settings, reduced, folder = attempt.run.settings, attempt.reduction, attempt.folder
    rest = limited(settings, reduced.summary)
    rest = replace(rest, skipped=(*settings.skipped, *OF_VALUES))
    with folder.scratch("captured-values") as place:
        shutil.copy(folder.journal, place)  # what is known of the ops
        again = _reduced(attempt, reduced.source, place, rest)
        save(again.minimal, folder.minimal)
    return replace(attempt, reduced=replace(again, minimal=load(folder.minimal)))


def _unless_interrupted(take: Callable[[Attempt], Attempt]) -> Callable[[Attempt], Attempt]:
    """Let the first interrupt, or a limit of the machine, end a start and not the run, which has a result to report."""

    def guarded(attempt: Attempt) -> Attempt:
        try:
            return take(attempt)
        except StoppedAtOnce:
            raise
        except (KeyboardInterrupt, StoppedEarly):
            attempt.run.interrupt("interrupted: the results are those from before")
            return attempt
        except LimitReached as error:
            attempt.run.ui.say(str(error))
            return attempt

    return guarded


def _is_of_unchecked_script(attempt: Attempt) -> bool:
    """Whether a script that can be run again got a wrong result, and did not fail by that."""
    is_wrong = attempt.case.failure.fingerprint.stage is Stage.COMPARE
    is_known = attempt.call is not None and attempt.asked is not None and not attempt.program.is_redirected
    return is_wrong and is_known and not is_of_script(attempt)


def _script(attempt: Attempt) -> Attempt:
    attempt.run.ui.say(f"no repro of the graph: {attempt.reason}")
    if attempt.reduced is None:
        attempt.run.ui.say("reducing the script itself instead")
    return reduce_script_instead(attempt)


STARTS = (
    Start("reduce the Case as captured", "ahead of all", _is_unreduced, reduce, is_usual=True),
    Start(
        RECORDED,
        "compiled code failed that may have changed its inputs unseen, or in a backward pass: the script runs again",
        lambda attempt: attempt.is_probed and may_have_lost_inputs(attempt),
        _record_inputs,
    ),
    _imports(0),
    _imports(1),
    _premise(
        "the calls ahead of the failing one", "the backend got other graphs before", _has_calls_ahead, _with_calls
    ),
    _premise(
        "those calls, and a pause before the failing one",
        "the backend may compile in the background meanwhile",
        _has_calls_ahead,
        _with_calls_and_pause,
    ),
    _premise(
        "torch.compile on the graph's function",
        "probes have handed the graph to the backend itself",
        _is_called_bare,
        lambda attempt: _through_dynamo(attempt.case),
    ),
    _premise(
        "torch.compile after the calls ahead of the failing one",
        "probes have handed the graph to the backend itself, which got other graphs before",
        lambda attempt: _is_called_bare(attempt) and _has_calls_ahead(attempt),
        lambda attempt: _through_dynamo(_with_calls(attempt)),
    ),
    _premise(
        "an earlier call of the same code with other values of its inputs",
        "a later call failed: compiled code may keep values of the call that compiled it",
        _is_called_again,
        _other_values(Ones.INPUTS),
    ),
    _premise(
        "an earlier call of the same code with other values of its inputs and parameters",
        "a later call failed: compiled code may keep parameters as well",
        _is_called_again,
        _other_values(Ones.ALL),
    ),
    _premise(
        "any message from the same function that shares half of its words",
        "the whole graph raised the same exception with another message",
        lambda attempt: isinstance(attempt.error, OtherMessage) and not attempt.case.failure.fingerprint.any_message,
        lambda attempt: _with_any_message(_through_dynamo(attempt.case)),
    ),
    Start("take the Case as captured", "an error of this tool ended the reduction", _is_unreduced, take_as_captured),
    Start(
        "reduce the script of a graph of transforms",
        "the ops that are left after thirty probes are what transforms of torch.func do",
        lambda attempt: _is_left_with_transforms(attempt) and is_of_script(attempt) and _has_time(attempt),
        _unless_interrupted(_short_script),
    ),
    Start(
        "reduce with all probes",
        "thirty probes did not end the reduction",
        _is_cut_short,
        _unless_interrupted(lambda attempt: replace(attempt, reduced=_reduced(attempt, attempt.case))),
        is_usual=True,
    ),
    Start(
        "reduce without comparing messages",
        "smaller graphs fail in the same function with other messages",
        _has_varying_messages,
        _unless_interrupted(_without_message),
        is_usual=True,
    ),
    Start(
        "search a repro",
        "the Case is reduced",
        lambda attempt: attempt.reduced is not None and attempt.repro_result is None,
        _find_repro,
        is_usual=True,
    ),
    Start(
        "take the backend eager",
        "the backend eager shows the failure too, which is one of torch.compile itself",
        _is_shown_by_eager,
        _with_eager,
    ),
    Start(
        "set the variables that the script sets",
        "no script shows the failure without variables that the script sets",
        lambda attempt: bool(_dropped_variables(attempt)),
        _with_variables_of_script,
    ),
    Start(
        "set environment variables in the repro",
        "no script shows the failure, and this process has other environment variables",
        lambda attempt: attempt.reduced is not None and attempt.error is None and bool(others(os.environ)),
        _with_variables,
    ),
    Start(
        "take the failure for a flaky one",
        "every probe failed, and the repro ran to its end",
        lambda attempt: attempt.repro_result is not None and attempt.repro_result.doubtful,
        _as_flaky,
    ),
    Start(
        "keep sizes, dtypes and arguments as captured",
        "no script shows the simplified Case",
        _has_simple_values,
        _with_captured_values,
    ),
    Start(
        "reduce the script itself",
        "there is no repro of the graph, and the script itself shows the failure",
        lambda attempt: is_of_script(attempt) and not _is_left_with_transforms(attempt),
        _unless_interrupted(_script),
        is_last=True,
    ),
    Start(
        "reduce the script with a check against eager mode",
        "there is no repro of the graph, and the script does not check its wrong result itself",
        _is_of_unchecked_script,
        _unless_interrupted(reduce_compared_script),
        is_last=True,
    ),
    Start(
        "reduce the graph in the script's own process",
        "no other process shows a wrong result, whose ops are to have names",
        is_only_live,
        _unless_interrupted(reduce_with_live_backend),
        is_last=True,
    ),
)
