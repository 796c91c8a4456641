"""Try a program of a hunt in a process of its own: in eager mode and by the backend, or to record its graphs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

import torch

from minifier.capturing.backend_reference import reference
from minifier.capturing.silent_fallbacks import watch_of, watched
from minifier.data.case import Case
from minifier.data.case.store import load, save
from minifier.data.failure.normalise import headline
from minifier.data.torch_names import COMPILE_THREADS
from minifier.errors import NoRepro
from minifier.flow.embed.function import record_graphs
from minifier.flow.hunt.programs import Call, NoSuchProgram, Program, seed_generators
from minifier.process.logs import CallWatch
from minifier.torch_side.compare.comparison import form_differences
from minifier.torch_side.compare.judge_results import differing_pairs
from minifier.torch_side.compare.results import BackwardPass, Results, are_identical, observe
from minifier.torch_side.torch_private import dynamo


class Answer(str, Enum):
    """What came of a program; the value is the word of the pages."""

    WORKS = "works"
    FALLBACK = "by fallback"
    UNSUPPORTED = "not supported"
    FAILS = "fails"
    NO_GRAPH = "no graph"
    LEFT_OUT = "left out"
    ABSENT = "absent"  # there are fewer samples


@dataclass(frozen=True, slots=True)
class Trial:
    """The answer of a trial, with its reason.

    `shows`: the known failures whose ops ran in eager mode.
    `is_open`: the results are not eager's, or not bit for bit, or the compiled program raised (`raised`). Its graphs
    decide what that means; the answer is the one that holds if they are right.
    """

    answer: Answer
    reason: str = ""
    is_open: bool = False
    raised: bool = False
    shows: tuple[int, ...] = ()


class _NotMade(Exception):
    def __init__(self, trial: Trial) -> None:
        self.trial = trial


def try_program(program: Program, backend: Any, training: bool, dynamic: bool) -> Trial:
    """Run the program in eager mode and by the backend.

    A program that eager mode refuses, or whose results are not finite there, is left out.
    """
    dynamo.forget_graph_breaks()
    try:
        call, again = _made(program), _made(program)
    except _NotMade as error:
        return error.trial
    trial = _tried(call, again, backend, training, dynamic)
    if call.these_alone is None or trial.is_open or trial.answer is not Answer.WORKS:
        return replace(trial, shows=call.shows)
    torch.compiler.reset()
    call, again = (replace(_made(program), function=each.these_alone or each.function) for each in (call, again))
    alone = _tried(call, again, backend, training, dynamic)
    return replace(trial, shows=call.shows if alone.is_open or alone.answer is Answer.FAILS else ())


def call_in_eager(program: Program) -> dict[str, Any]:
    """Run the program in eager mode, in a process that this may end."""
    call = _made(program)
    observe(call.function, call.tensors)
    return {}


def _tried(call: Call, again: Call, backend: Any, training: bool, dynamic: bool) -> Trial:
    eager = observe(call.function, call.tensors, backward=BackwardPass() if training else None)
    if eager.error is not None:
        return Trial(Answer.LEFT_OUT, f"eager raises {described(eager.error)}")
    if not all(map(_is_finite, (*eager.outputs, *eager.gradients))):
        return Trial(Answer.LEFT_OUT, "eager's results are not finite")
    calls = _BackendCalls()
    compiled = dynamo.isolated_compile(again.function, backend, dynamic or None)
    with calls:
        results = observe(compiled, again.tensors, backward=BackwardPass(eager.tangents) if training else None)
    if results.error is not None:
        raised = described(dynamo.backend_error(results.error))
        return Trial(Answer.FAILS, raised, is_open=calls.graphs > 0, raised=True)
    answer = Trial(Answer.FALLBACK, calls.fallbacks[0]) if calls.fallbacks else Trial(Answer.WORKS)
    if not calls.graphs:
        return Trial(Answer.NO_GRAPH, dynamo.first_graph_break())
    names = [f"tensor_{n + 1}" for n in range(len(call.tensors))]
    for difference in form_differences(results, eager, names):
        return Trial(Answer.FAILS, difference.sentence, is_open=True)
    is_equal = not differing_pairs(results, eager, names, ()) and _can_be_compared(eager, call, again)
    return replace(answer, is_open=not is_equal)


class _BackendCalls:
    """Counts the backend's calls in its block, and notes the fallbacks of each.

    A backend may fall back while it compiles, or in the first call of what it has compiled: both are watched. An
    exception that it catches as it compiles may be no fallback, unless that call runs a graph with torch.
    """

    def __init__(self) -> None:
        self.graphs = 0
        self.fallbacks: list[str] = []

    def __enter__(self) -> None:
        self._end = dynamo.observe_backend_calls(self._compile)

    def __exit__(self, *_: object) -> None:
        self._end()

    def _compile(self, compiler: Any, gm: torch.fx.GraphModule, _: Sequence[Any], compile_: Callable[[], Any]) -> Any:
        self.graphs += 1
        function = dynamo.asked_backend(compiler).function
        imports = reference(compiler, sys.path).imports
        compiled, has_caught = self._watched(watch_of(function, imports), compile_, gm=gm)
        has_run = False

        def run(*args: Any) -> Any:
            nonlocal has_run
            if has_run:
                return compiled(*args)
            has_run = True
            return self._watched(watch_of(function, imports), lambda: compiled(*args), has_caught=has_caught)[0]

        return run if function is not None else compiled

    def _watched(self, watch: CallWatch | None, call: Callable[[], Any], **asked: Any) -> tuple[Any, bool]:
        """Return the result, and whether the backend caught an exception or fell back."""
        result, fell_back = watched(watch, self.graphs, call, **asked)
        if fell_back is not None and fell_back.is_left:
            self.fallbacks.append(fell_back.sentence)
        return result, fell_back is not None


_COMPARED = torch.Tensor, bool, int, float, complex, str, type(None)


def _can_be_compared(eager: Results, call: Call, again: Call) -> bool:
    """Whether the results are of types that are compared, and the modules' buffers and parameters are equal."""
    are_known = all(isinstance(each, _COMPARED) for each in eager.outputs)
    return are_known and all(map(are_identical, _state(call), _state(again)))


def _state(call: Call) -> Iterator[torch.Tensor]:
    for module in call.modules:
        yield from (each.detach() for each in (*module.parameters(), *module.buffers()))


def record_program(program: Program, backend: Any, folder: Path, training: bool, dynamic: bool) -> Trial:
    """Save the graphs of the program as Cases into the folder, without a call of the backend.

    The answer is FAILS, or NO_GRAPH, or LEFT_OUT if a graph cannot be saved.
    """
    try:
        call = _made(program)
        graphs = record_graphs(call.function, call.tensors, backend, folder, dynamic or None)
    except _NotMade as error:
        return error.trial
    except NoRepro as error:
        return Trial(Answer.LEFT_OUT, str(error))
    for place in (each for each in folder.iterdir() if each.name.isdecimal()):
        case = as_outside_of_forks(load(place))
        # Without training, parameters alone would ask for a backward pass.
        save(replace(case, backward=case.backward and training), place)
    return Trial(Answer.FAILS if graphs else Answer.NO_GRAPH)


def as_outside_of_forks(case: Case) -> Case:
    """Return the Case without the one thread that inductor compiles with in forks."""
    own = (pair for pair in case.state.config if pair[:2] != COMPILE_THREADS)
    return replace(case, state=replace(case.state, config=tuple(own)))


def _made(program: Program) -> Call:
    """Make the program, from seeds."""
    seed_generators()
    try:
        return program.make()
    except NoSuchProgram:
        raise _NotMade(Trial(Answer.ABSENT)) from None
    except Exception as error:
        raise _NotMade(Trial(Answer.LEFT_OUT, f"it cannot be made: {described(error)}")) from error


def described(error: BaseException) -> str:
    """Return the type and the first line of an exception, without what differs between processes."""
    return f"{type(error).__name__}: {headline(str(error))}"


def _is_finite(value: Any) -> bool:
    if not isinstance(value, torch.Tensor) or not (value.is_floating_point() or value.is_complex()):
        return True
    return bool((value.to_dense() if value.layout is not torch.strided else value).isfinite().all())
