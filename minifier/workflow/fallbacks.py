"""The fallbacks of a run, in the order in which they are tried.

After each step of `run.py` the rows of that step are checked in turn. A row that applies prints its sentence
and makes its attempt; the rows below see the result. The row that records the inputs again restarts its step, once.
"""

from __future__ import annotations

import contextlib
import enum
import filecmp
import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from minifier.capturing.find_failures import (
    FoundFailures,
    compare_with_eager,
    compile_module_calls,
    compiles_nothing,
    should_compare,
)
from minifier.capturing.recapture_inputs import recapture_inputs
from minifier.case import Level
from minifier.case.store import ATEN, CASE
from minifier.case.stored import TENSORS
from minifier.case.variables import others
from minifier.errors import NoRepro
from minifier.failure import Stage
from minifier.passes.table import OF_VALUES
from minifier.probe.prepared_case import StartsThreads
from minifier.process.progress import counted
from minifier.workflow.attempt import Attempt, FailingCall, Run
from minifier.workflow.backward_module import is_left_to_simplify, reduce_forward, simplify_backward
from minifier.workflow.calls_ahead import calls_ahead, reduce_with_calls_ahead
from minifier.workflow.imports_ahead import other_imports, reduce_with_imports
from minifier.workflow.keep_case import keep_call
from minifier.workflow.near_failure import has_near_failure, reduce_near_failure
from minifier.workflow.reduction import (
    holds_tensors,
    reduce,
    reduce_as_parameters,
    reduce_aten,
    reduce_through_dynamo,
    take_as_captured,
)
from minifier.workflow.repro_search import (
    find_repro_as_flaky,
    find_repro_with_captured_values,
    find_repro_with_variables,
)
from minifier.workflow.weaker_identity import may_vary, reduce_by_place, said_of_message
from minifier.workflow.whole_script import has_transforms, is_of_script, prefer_short_script, reduce_script_instead

State = TypeVar("State", FoundFailures, FailingCall, Attempt)


class Step(enum.Enum):
    """The steps of a run that have fallbacks."""

    CAPTURE = "capture"  # state: FoundFailures
    CHOOSE = "choose"  # FailingCall
    REDUCE = "reduce"  # Attempt, reduced or with an error
    VERIFY = "verify"  # Attempt, with or without a repro
    END = "end"  # Attempt, after every fallback on the graph


@dataclass(frozen=True)
class Fallback(Generic[State]):
    """A fallback: its condition on the state after a step, its attempt, and the sentence that is printed before."""

    name: str
    after: Step
    applies: Callable[[State, Run], bool]
    attempt: Callable[[State, Run], State]
    sentence: Callable[[State], str]


def _use_aten_graph(call: FailingCall, _run: Run) -> FailingCall:
    return replace(call, failing=replace(call.failing, unsaved=""), folder=call.folder / ATEN)


def _recapture(call: FailingCall, run: Run) -> FailingCall:
    failing, folder = recapture_inputs(call.found, call.failing, call.place, run.ui)
    return replace(call, failing=failing, folder=folder)


def _may_need_dynamo(attempt: Attempt, _run: Run) -> bool:
    """Whether probes can call torch.compile instead: a direct call with a graph of Dynamo's shows no failure."""
    return isinstance(attempt.error, NoRepro) and attempt.case.level is Level.DYNAMO and not attempt.case.through_dynamo


def _reducing_forward(attempt: Attempt) -> str:
    if attempt.reduced is None:
        return "the backward graph does not show it again; looking for a small module"
    summary = attempt.reduced.summary
    return f"reduced from {summary.ops_before} ops to {summary.ops_after}; looking for a small module"


def _may_have_lost_inputs(attempt: Attempt, _run: Run) -> bool:
    """Whether the call may have changed its inputs: under inference mode and through `.data` torch counts no change."""
    call = attempt.call
    return (
        attempt.error is not None
        and call is not None
        and not call.unsaved
        and call.failing.stage in (Stage.RUN, Stage.BACKWARD_RUN)
        and not call.failing.inputs_lost  # recorded already, or in vain
        and RECORD_INPUTS not in call.fallbacks
        and call.folder.name != ATEN
    )


def _reduce_with_inputs_ahead(attempt: Attempt, run: Run) -> Attempt:
    assert attempt.call is not None and attempt.asked is not None, "only a script can be run again"
    call = _recapture(attempt.call, run)
    ahead, after = call.folder / TENSORS, attempt.call.folder / TENSORS
    if ahead == after or not (ahead.exists() and after.exists()) or filecmp.cmp(ahead, after, shallow=False):
        return attempt
    call = replace(call, fallbacks=(*call.fallbacks, RECORD_INPUTS))
    attempt.folder.clear(keep=True)
    case = keep_call(call, attempt.folder, attempt.asked, run)
    again = reduce(replace(attempt, call=call, case=case, reduced=None))
    return fall_back(again, Step.REDUCE, run)


RECORD_INPUTS = "record the inputs ahead of the failing call"
FALLBACKS: tuple[Fallback[Any], ...] = (
    Fallback[FoundFailures](
        "compile calls of modules",
        Step.CAPTURE,
        lambda found, _: compiles_nothing(found),
        lambda found, run: compile_module_calls(found, run.ui),
        lambda _: "the script compiles nothing: running it again, compiling each module that it calls",
    ),
    Fallback[FoundFailures](
        "compare with eager",
        Step.CAPTURE,
        lambda found, run: should_compare(found, run.settings),
        lambda found, run: compare_with_eager(found, run.settings, run.ui),
        lambda _: "no backend call failed: running the script again, comparing each graph's result with eager's",
    ),
    Fallback[FailingCall](
        RECORD_INPUTS,
        Step.CHOOSE,
        lambda call, _: bool(call.failing.inputs_lost) and not call.unsaved,
        _recapture,
        lambda call: f"{call.failing.inputs_lost}: running the script again to keep them",
    ),
    Fallback[FailingCall](
        "take the ATen graph in place of one that cannot be saved",
        Step.CHOOSE,
        lambda call, _: call.unsaved and (call.folder / ATEN / CASE).exists(),
        _use_aten_graph,
        lambda call: (
            f"Dynamo's graph cannot be saved: {call.failing.unsaved}\n"
            "going on with the ATen graph that AOTAutograd made of it"
        ),
    ),
    Fallback[Attempt](
        "import the backend in each probe",
        Step.REDUCE,
        lambda attempt, _: isinstance(attempt.error, StartsThreads),
        lambda attempt, _: reduce(replace(attempt, imports_in_child=True)),
        lambda _: (
            "importing the backend starts threads or a device, and forked processes do not have them: each probe now "
            "imports it, which is slower"
        ),
    ),
    Fallback[Attempt](
        "put the script's imports ahead of the backend's",
        Step.REDUCE,
        lambda attempt, _: isinstance(attempt.error, NoRepro) and bool(other_imports(attempt)),
        lambda attempt, _: reduce_with_imports(attempt),
        lambda attempt: f"{attempt.error}\ntrying again after the script's own imports, in their order",
    ),
    Fallback[Attempt](
        "make the calls ahead of the failing one",
        Step.REDUCE,
        lambda attempt, _: bool(calls_ahead(attempt)),
        lambda attempt, _: reduce_with_calls_ahead(attempt),
        lambda attempt: (
            f"{attempt.error}\ntrying again after {counted(len(calls_ahead(attempt)), 'graph')} that the backend got "
            "before"
        ),
    ),
    Fallback[Attempt](
        "probe through torch.compile",
        Step.REDUCE,
        _may_need_dynamo,
        lambda attempt, _: reduce_through_dynamo(attempt),
        lambda attempt: f"{attempt.error}\ntrying again through torch.compile on the graph's function",
    ),
    Fallback[Attempt](
        "make the calls ahead of the failing one, through torch.compile",
        Step.REDUCE,
        lambda attempt, run: _may_need_dynamo(attempt, run) and bool(calls_ahead(attempt)),
        lambda attempt, _: reduce_with_calls_ahead(attempt, through_dynamo=True),
        lambda _: "trying again through torch.compile, with the calls ahead",
    ),
    Fallback[Attempt](
        "reduce the ATen graph",
        Step.REDUCE,
        lambda attempt, _: attempt.error is not None and attempt.folder.has_aten,
        lambda attempt, _: reduce_aten(attempt),
        lambda _: "Dynamo's graph does not show it again; going on with the ATen graph that AOTAutograd made of it",
    ),
    Fallback[Attempt](
        "look for a small module that has the backward graph",
        Step.REDUCE,
        lambda attempt, _: attempt.folder.has_forward,
        lambda attempt, _: reduce_forward(attempt),
        _reducing_forward,
    ),
    Fallback[Attempt](
        "simplify the backward graph itself",
        Step.REDUCE,
        lambda attempt, _: is_left_to_simplify(attempt),
        lambda attempt, _: simplify_backward(attempt),
        lambda _: "simplifying sizes, dtypes and arguments of the backward graph itself",
    ),
    Fallback[Attempt](
        "record the inputs ahead of a call that may have changed them",
        Step.REDUCE,
        _may_have_lost_inputs,
        _reduce_with_inputs_ahead,
        lambda _: "no failure, but the call may have changed its inputs: running the script again to keep them",
    ),
    Fallback[Attempt](
        "leave the message out of the failure's identity",
        Step.REDUCE,
        lambda attempt, _: may_vary(attempt),
        lambda attempt, _: reduce_by_place(attempt),
        said_of_message,
    ),
    Fallback[Attempt](
        "pass the graph's own tensors as parameters",
        Step.REDUCE,
        lambda attempt, _: holds_tensors(attempt),
        lambda attempt, _: reduce_as_parameters(attempt),
        lambda _: "the graph itself holds tensors; trying again with them as parameters of a function",
    ),
    Fallback[Attempt](
        "take the Case as captured",
        Step.REDUCE,
        lambda attempt, run: attempt.reduced is None and bool(run.errors),
        lambda attempt, _: take_as_captured(attempt),
        lambda attempt: f"{attempt.reason}\ngoing on with the Case as captured",
    ),
    Fallback[Attempt](
        "set environment variables in the repro",
        Step.VERIFY,
        lambda attempt, _: attempt.lacks_repro and bool(others(os.environ)),
        lambda attempt, _: find_repro_with_variables(attempt),
        lambda _: "no script shows the failure: trying again with the other environment variables of this process",
    ),
    Fallback[Attempt](
        "take the failure for a flaky one",
        Step.VERIFY,
        lambda attempt, _: attempt.lacks_repro and bool(attempt.repro_result and attempt.repro_result.doubtful),
        lambda attempt, _: find_repro_as_flaky(attempt),
        lambda _: "the repro does not show the failure: finding out whether it comes and goes",
    ),
    Fallback[Attempt](
        "keep sizes, dtypes and arguments as captured",
        Step.VERIFY,
        lambda attempt, run: (
            attempt.lacks_repro
            and not attempt.folder.has_forward
            and any(run.settings.wants(name) for name in OF_VALUES)
            and attempt.reduced is not None
            and not attempt.reduced.summary.stopped_because
        ),
        lambda attempt, _: find_repro_with_captured_values(attempt),
        lambda _: "no script shows the simplified Case: going on with sizes, dtypes and arguments as captured",
    ),
    Fallback[Attempt](
        "reduce the script whose graph is made of transforms",
        Step.END,
        lambda attempt, _: has_transforms(attempt) and is_of_script(attempt),
        prefer_short_script,
        lambda attempt: (
            f"the repro is in {attempt.folder.shown}; its ops are what transforms of torch.func do\n"
            "reducing the script as well, which may be shorter"
        ),
    ),
    Fallback[Attempt](
        "reduce the script itself",
        Step.END,
        lambda attempt, _: attempt.repro is None and is_of_script(attempt),
        reduce_script_instead,
        lambda attempt: f"no repro of the graph: {attempt.reason}\nreducing the script itself instead",
    ),
    Fallback[Attempt](
        "reduce another failure of the same place",
        Step.END,
        has_near_failure,
        reduce_near_failure,
        lambda attempt: (
            f"the repro is in {attempt.folder.shown}\n"
            "reducing as well a failure with another message, raised at the same place by fewer ops"
        ),
    ),
)


def fall_back(state: State, step: Step, run: Run) -> State:
    """Try the rows of this step that apply, in order, and return the state that they lead to. Say each reason once.

    The new state lists the rows that changed it by more than their own error. If no row changes the state, the result
    is `state` itself. After the capture, a row that an error of this tool ends changes nothing; `run` keeps the error.
    """
    told: set[str] = set()
    for row in FALLBACKS:
        if row.after is step and row.applies(state, run):
            run.ui.detail(f"fallback: {row.name}")
            reason, _, sentence = row.sentence(state).rpartition("\n")
            for text in (reason, sentence):
                if text and text not in told:
                    run.ui.say(text)
                told.add(text)
            after: State = state
            with contextlib.nullcontext() if step is Step.CAPTURE else run.going_on():
                after = row.attempt(state, run)
            if after == state:
                continue
            taken: tuple[str, ...] = after.fallbacks[len(state.fallbacks) :]  # within the attempt
            if not (isinstance(after, Attempt) and replace(after, error=state.error) == state):
                taken = (row.name, *taken)
            state = replace(after, fallbacks=(*state.fallbacks, *taken))
    return state
