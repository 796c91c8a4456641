"""The last statements of a script: how often they run, in which state, and what ends them."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from minifier.data.case import Case, TensorInput
from minifier.data.case.literals import literal
from minifier.data.case.switches import contexts
from minifier.data.failure import Kind
from minifier.repro.emit.script_text import under, under_contexts

THE_END = "It was not ended."  # last output of a script whose failure would end it early with status 0

_MISS_PROBABILITY = 0.001  # chance that the script of a flaky failure ends without showing it
_MAX_ATTEMPTS = 1000
_MEMORY_LIMIT_GIB, _MIN_MEMORY_LIMIT_GIB = 4, 2  # for a script that exhausts memory; torch itself needs the minimum
_MIN_TIMEOUT_SECONDS = 20  # a new interpreter needs several seconds to compile anything


@dataclass(frozen=True, slots=True)
class Step:
    """A statement of a script.

    in_state: it calls the function, so it runs in the Case's state.
    compiles: it compiles, or calls compiled code. Statements ahead of the first such one are not repeated.
    """

    text: str
    in_state: bool = True
    compiles: bool = True


def other_step(text: str) -> Step:
    """Return a step that does not call the function."""
    return Step(text, in_state=False, compiles=False)


@dataclass(frozen=True, slots=True)
class FormSource:
    """What the form of a script adds to a Case's function and inputs.

    `definitions` are functions and classes, `inputs` statements behind those that create the Case's inputs. `draws`:
    the script draws random numbers besides its inputs.
    """

    steps: tuple[Step, ...]
    definitions: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    draws: bool = False


def compile_call(function: str, backend: str, arguments: Sequence[str]) -> str:
    """Return the call of torch.compile with this backend and these further arguments."""
    return f"torch.compile({', '.join([function, f'backend={backend}', *arguments])})"


def attempts_for(rate: float) -> int:
    """Return the number of attempts after which a failure of this rate is missed with _MISS_PROBABILITY."""
    if rate >= 1:
        return 1
    return min(_MAX_ATTEMPTS, math.ceil(math.log(_MISS_PROBABILITY) / math.log1p(-max(rate, 1e-6))))


def guard_seconds(case: Case) -> int:
    """Return the time limit of a hanging script in seconds; 0 for any other failure."""
    if case.failure.fingerprint.kind is not Kind.TIMEOUT:
        return 0
    return max(_MIN_TIMEOUT_SECONDS, math.ceil(case.patience))


def guard_gibibytes(case: Case, memory: int | None = None) -> int:
    """Return the memory limit in GiB of a script that exhausts memory; 0 for any other failure.

    `memory` is the number of bytes that the script may use during verification.
    """
    on_device = case.failure.type.endswith("OutOfMemoryError")  # a process limit does not cover device memory
    if case.failure.fingerprint.kind is not Kind.OUT_OF_MEMORY or on_device:
        return 0
    limit = _MEMORY_LIMIT_GIB
    if memory is not None:
        limit = max(_MIN_MEMORY_LIMIT_GIB, min(limit, math.ceil(memory / 2**30)))
    return limit + math.floor(2 * _input_bytes(case) / 2**30)


def _input_bytes(case: Case) -> int:
    import torch

    metas = [item.meta for item in case.inputs if isinstance(item, TensorInput)]
    return sum(meta.elements * getattr(torch, meta.dtype).itemsize for meta in metas)


def wrapped(
    case: Case,
    steps: Sequence[Step],
    head: Sequence[str],
    earlier: Sequence[Step | int],
    calls: int,
    *,
    recompile: bool,
    memory: int | None,
) -> tuple[list[str], list[str]]:
    """Return (the last statements of the Case's script, imports that they need).

    `head` assigns the compiled function, or is empty. `earlier` are the calls before the failing one; a number stands
    for so many runs of the steps. `calls` is how often the steps run in the end, in each attempt of a flaky failure.
    With `recompile` each attempt compiles anew. `memory` is the number of bytes that the script may use during
    verification.
    """
    state, attempts = contexts(case.state), attempts_for(case.rate)
    called = [i for i, step in enumerate(steps) if step.in_state]
    first, last = called[0], called[-1]  # statements between two calls share their `with`
    steps = [replace(step, in_state=first <= i <= last) for i, step in enumerate(steps)]
    start = next(i for i, step in enumerate(steps) if step.compiles)
    start = first if state and first < start <= last else start
    before, steps = [step.text for step in steps[:start]], steps[start:]
    runs = [(_repeated(each, steps, state) if isinstance(each, int) else [each]) for each in (*earlier, calls)]
    body = _in_state([*itertools.chain(*runs)], state)
    imports = []
    if seconds := guard_seconds(case):
        imports.append("import faulthandler")
        guard = f"faulthandler.dump_traceback_later({seconds}, exit=True)  # it hangs: this ends it after {seconds} s"
        body.insert(0, guard)
    if gib := guard_gibibytes(case, memory):
        imports.append("import resource")
        guard = f"resource.setrlimit(resource.RLIMIT_DATA, ({gib} << 30, {gib} << 30))"
        before.append(f"{guard}  # it takes all memory: this ends it at {gib} GiB")
    if attempts > 1 and recompile:
        body, head = ["torch.compiler.reset()", *head, *body], []
    if attempts > 1:
        body = [under(f"for attempt in range({attempts}):", body)]
    fingerprint = case.failure.fingerprint
    if case.failure.type == "torch.AcceleratorError" and not fingerprint.stage.compiles:  # its kernel is asynchronous
        body.append("torch.accelerator.synchronize()")
    if fingerprint.exits_with_0:
        body.append(f"print({literal(THE_END)})")
    return [*before, *head, *body], imports


def _repeated(times: int, steps: Sequence[Step], state: Sequence[str]) -> Sequence[Step]:
    return [other_step(under(f"for _ in range({times}):", _in_state(steps, state)))] if times > 1 else steps


def _in_state(steps: Sequence[Step], state: Sequence[str]) -> list[str]:
    """Return the statements, with those in a row that need the state under one `with`."""
    statements: list[str] = []
    for in_state, group in itertools.groupby(steps, lambda step: step.in_state):
        texts = [step.text for step in group]
        statements += under_contexts(texts, state) if in_state else texts
    return statements
