"""Try a program of a hunt in a process of its own: in eager mode and by the backend, or to record its graphs."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

import torch

from minifier.capturing.silent_fallbacks import fallback, is_unchanged, parts_of, watch_of
from minifier.errors import NoRepro
from minifier.flow.embed.function import record_graphs
from minifier.flow.hunt.programs import Call, NoSuchProgram, Program
from minifier.reduction.probe.children import imports_told
from minifier.torch_side.compare.comparison import form_differences
from minifier.torch_side.compare.judge_results import differing_pairs
from minifier.torch_side.compare.results import BackwardPass, Results, observe
from minifier.torch_side.torch_private import dynamo


class Answer(str, Enum):
    """What came of a program. `value` is the word of the page."""

    WORKS = "works"
    FALLBACK = "by fallback"
    UNSUPPORTED = "not supported"
    FAILS = "fails"
    NO_GRAPH = "no graph"
    LEFT_OUT = "left out"
    ABSENT = "absent"
    SUSPECT = "suspect"


Told = dict[str, Any]
OTHER_RESULTS = "other results than eager's"


@imports_told()
def try_program(program: Program, backend: Any, imports: Sequence[str], training: bool) -> Told:
    """Run the program in eager mode and by the backend, which the lines `imports` import.

    Return {"answer", "reason"}. SUSPECT says that the results are not those of eager bit for bit, or that the compiled
    program raised; what that means is decided by its graphs. A program that eager mode refuses, or whose results are
    not finite there, is left out.
    """
    call = _made(program)
    if not isinstance(call, Call):
        return call
    eager = _observed(call.function, call.tensors, BackwardPass() if training else None)
    if eager.error is not None:
        return told(Answer.LEFT_OUT, f"eager raises {_headline(eager.error)}")
    if not all(_is_finite(value) for value in eager.outputs):
        return told(Answer.LEFT_OUT, "eager's results are not finite")
    graphs = 0
    fallbacks: list[str] = []

    def observed(compiler: Any, gm: torch.fx.GraphModule, _inputs: Sequence[Any], compile_: Callable[[], Any]) -> Any:
        nonlocal graphs
        graphs += 1
        watch, before = watch_of(dynamo.asked_backend(compiler).function, imports), parts_of(gm)
        if watch is None:
            return compile_()
        with watch:
            compiled = compile_()
        if (seen := fallback(watch, graphs, is_unchanged(compiled, gm, before), False)) is not None:
            fallbacks.append(seen.sentence)
        return compiled

    end = dynamo.observe_backend_calls(observed)
    call = _made(program)
    assert isinstance(call, Call), "made before"
    compiled = dynamo.isolated_compile(call.function, backend)
    results = _observed(compiled, call.tensors, BackwardPass(eager.tangents) if training else None)
    end()
    if results.error is not None:
        return told(Answer.SUSPECT, _headline(dynamo.backend_error(results.error)))
    names = [f"tensor_{n + 1}" for n in range(len(call.tensors))]
    if form_differences(results, eager, names) or differing_pairs(results, eager, names, ()):
        return told(Answer.SUSPECT, OTHER_RESULTS)
    if fallbacks:
        return told(Answer.FALLBACK, fallbacks[0])
    return told(Answer.WORKS) if graphs else told(Answer.NO_GRAPH, dynamo.last_graph_break())


@imports_told()
def record_program(program: Program, backend: Any, folder: Path) -> Told:
    """Save the graphs of the program as Cases into the folder, without a call of the backend.

    Return {"answer", "reason"}: SUSPECT, NO_GRAPH, or LEFT_OUT if a graph cannot be saved.
    """
    call = _made(program)
    if not isinstance(call, Call):
        return call
    try:
        graphs = record_graphs(call.function, call.tensors, backend, folder)
    except NoRepro as error:
        return told(Answer.LEFT_OUT, str(error))
    return told(Answer.SUSPECT if graphs else Answer.NO_GRAPH)


def told(answer: Answer, reason: str = "") -> Told:
    """Return an answer with its reason, as one process tells another."""
    return {"answer": answer.value, "reason": reason}


def _made(program: Program) -> Call | Told:
    _seed()
    try:
        return program.make()
    except NoSuchProgram:
        return told(Answer.ABSENT)
    except Exception as error:  # noqa: BLE001 - a source's fault costs its program alone
        return told(Answer.LEFT_OUT, f"it cannot be made: {_headline(error)}")


def _observed(function: Callable[..., Any], tensors: Sequence[torch.Tensor], backward: BackwardPass | None) -> Results:
    return observe(function, tensors, backward=backward)


def _headline(error: BaseException) -> str:
    return f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0]}"


def _is_finite(value: Any) -> bool:
    if not isinstance(value, torch.Tensor) or not (value.is_floating_point() or value.is_complex()):
        return True
    return bool(value.to_dense().isfinite().all() if value.layout is not torch.strided else value.isfinite().all())


def _seed() -> None:
    """Seed every generator that a sample may be drawn from."""
    torch.manual_seed(0)
    random.seed(0)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(0)
