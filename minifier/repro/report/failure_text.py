"""Describe a failure in a report: in a sentence, in a table, and in words to search for."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable
from dataclasses import replace

from minifier.data.case import BackendReference, Case, Level, TensorInput
from minifier.data.case.literals import SCRIPT, literal
from minifier.data.case.symbolic_sizes import is_symbolic
from minifier.data.failure import Aspect, Failure, Kind, Stage
from minifier.data.failure.frames import TESTING
from minifier.data.failure.normalise import headline, normalise, shortened
from minifier.data.torch_names import BACKENDS_OF_TORCH
from minifier.process.progress import counted
from minifier.repro.report.markdown import Section, code, fence, folded, items, prose, sections_of, table
from minifier.repro.report.outcome import Outcome, op_names, words_of

_MAX_TRACEBACK_LINES = 60
_FEW_FRAMES = 3  # of torch, which are shown
_MAX_DIFFERENCES = 8
_MAX_NAMED_OPS = 3
_MAX_EXPRESSION_CHARS = 60
_MAX_TITLE_MESSAGE_CHARS = 100
_HEADER = re.compile(r"[ |+]*(Exception Group )?Traceback \(most recent call last\):")
_FRAME = re.compile(r'^[ |+]*File "', re.MULTILINE)
# Frames of torch one after the other, but for its backends and for the frame that raises: another frame follows.
_BACKENDS = "|".join(name.replace(".", "/") for name in BACKENDS_OF_TORCH)
_FRAME_OF_TORCH = rf'^[ |]*File "[^"\n]*-packages>?/(?!{_BACKENDS})torch/.*\n(?:(?![ |]*File ")[ |]{{4}}.*\n)*'
_FRAMES_OF_TORCH = re.compile(rf'(?:{_FRAME_OF_TORCH})+(?=[ |]*File ")', re.MULTILINE)

_WHEN = {
    Stage.CAPTURE: "before any backend is called",
    Stage.COMPILE: "while the backend compiles",
    Stage.RUN: "when what the backend made of it is called",
    Stage.BACKWARD_COMPILE: "while the backend compiles the backward pass",
    Stage.BACKWARD_RUN: "in the backward pass that the backend compiled",
}
_DOING = {
    Stage.CAPTURE: "capturing",
    Stage.COMPILE: "compiling",
    Stage.RUN: "running",
    Stage.BACKWARD_COMPILE: "compiling the backward of",
    Stage.BACKWARD_RUN: "running the backward of",
}
_EVENTS = {Kind.TIMEOUT: "hang", Kind.OUT_OF_MEMORY: "out of memory", Kind.SILENT_FALLBACK: "silent fallback"}
_WRONG = {  # before the names of the ops
    Aspect.VALUES: "wrong result of",
    Aspect.NON_FINITE: "wrong NaN or infinity from",
    Aspect.SHAPE: "wrong shape of the result of",
    Aspect.DTYPE: "wrong dtype of the result of",
    Aspect.STRIDE: "wrong strides of the result of",
    Aspect.DEVICE: "wrong device of the result of",
    Aspect.ALIASING: "wrong aliasing of the result of",
    Aspect.MUTATION: "wrong value of an input after",
    Aspect.OVERWRITTEN: "overwritten result of",
    Aspect.GRADIENT: "wrong gradient of",
    Aspect.AUTOGRAD: "wrong requires_grad of the result of",
    Aspect.NO_EXCEPTION: "missing exception of",
    Aspect.STRUCTURE: "wrong structure of the result of",
    Aspect.PREDICATE: "wrong result of",
}
_HOW = {
    Kind.SIGNAL: "the process is killed",
    Kind.EXIT: "the process ends",
    Kind.TIMEOUT: "it never ends",
    Kind.OUT_OF_MEMORY: "memory runs out",
    Kind.SILENT_FALLBACK: "the backend logs that it does something else",
}
_ENDS = (Kind.SIGNAL, Kind.EXIT, Kind.TIMEOUT, Kind.OUT_OF_MEMORY)  # of a process, with a message that names the end
_OF_THE_SCRIPT = re.compile(r" at line \d+|; with other rounding [^:]*")  # which the receiver of a repro does not have


def title_of(case: Case) -> str:
    """Return the title of an issue about the failure: `[backend] SIGFPE compiling torch.matmul with an empty input`.

    It is read as it stands, so it has quotes in the place of backticks.
    """
    message = headline(case.failure.message) if case.level is Level.SOURCE and _has_message(case) else ""
    message = _OF_THE_SCRIPT.sub("", case.script.sight) or message
    said = f": {shortened(message, _MAX_TITLE_MESSAGE_CHARS)}" if message else ""
    name = "torch.compile" if case.level is Level.SOURCE and case.backend.name == "eager" else case.backend.name
    return f"[{name}] {event_of(case)}{_condition(case)}{said}".replace("`", "'")


def event_of(case: Case) -> str:
    """Return what happens, and to which ops: `SIGFPE compiling torch.matmul`, `wrong gradient of torch.tanh`."""
    failure, stage = case.failure, case.failure.fingerprint.stage
    if case.level is Level.SOURCE:
        event = "the script's own check fails" if is_own_check(failure) else _event(failure)
        event = "another value than in eager mode" if case.script.sight else event
        return event if _has_message(case) else f"{event} under torch.compile"
    if stage is Stage.COMPARE:
        return f"{_wrong(failure.fingerprint.message)} {_ops(case)}"
    return f"{_event(failure)} {_DOING[stage]} {_ops(case)}"


def _has_message(case: Case) -> bool:
    return case.failure.fingerprint.kind is Kind.EXCEPTION and bool(headline(case.failure.message))


def is_own_check(failure: Failure) -> bool:
    """Whether the script's own check failed: an assertion, or it ended itself, and its message says where."""
    fingerprint = failure.fingerprint
    if fingerprint.kind is Kind.EXIT:
        return failure.message != fingerprint.message
    raised_by = fingerprint.raising.module if fingerprint.raising is not None else ""
    return fingerprint.types[-1:] == ("AssertionError",) and raised_by.startswith((SCRIPT, *TESTING))


def _wrong(aspect: str) -> str:
    return next((words for known, words in _WRONG.items() if known.value == aspect), _WRONG[Aspect.VALUES])


def _event(failure: Failure) -> str:
    """Return the exception's type, the signal, the exit status, or words for the other kinds."""
    if failure.fingerprint.kind is Kind.EXCEPTION:
        return failure.type.rpartition(".")[2]
    return _EVENTS.get(failure.fingerprint.kind, failure.fingerprint.message)


def _ops(case: Case) -> str:
    if case.any_graph:
        return "any graph"
    ops = {node.name: f"Tensor.{node.target}" if node.op == "call_method" else node.target for node in case.graph.ops}
    names = list(dict.fromkeys(target.removeprefix("torch.ops.") for target in ops.values()))
    return " and ".join(names) if 0 < len(names) <= _MAX_NAMED_OPS else f"a graph of {counted(len(ops), 'op')}"


def _condition(case: Case) -> str:
    if any(isinstance(item, TensorInput) and 0 in item.meta.shape for item in case.inputs):
        return " with an empty input"
    if case.symbolic is None:
        return ""
    return " with dynamic sizes" if is_symbolic(case) else " with a dynamic number"


def sentence_of(outcome: Outcome) -> str:
    """Describe the failure for somebody who has never seen the script."""
    case = outcome.minimal or outcome.case
    failure, fingerprint = outcome.shown_failure, case.failure.fingerprint
    program = _program(outcome)
    where = code(f"torch.compile(..., backend={_written(case.backend)})")
    if case.script.sight:
        return (
            "Each graph is right by itself, but under `torch.compile` the script sees another value than in eager "
            f"mode: {prose(case.script.sight)}. The repro runs its statements in both modes and compares the value."
        )
    if case.level is Level.SOURCE and is_own_check(failure):
        if fingerprint.kind is Kind.EXIT:
            return f"Under `torch.compile` the script ends with {code(failure.message)}; without it the script runs."
        return (
            f"Under `torch.compile` the script's own check fails with {code(failure.line)}; without it the check holds."
        )
    if case.level is Level.SOURCE:
        return f"`torch.compile` fails with {code(failure.line)}; without it the script runs."
    first = headline(failure.message).rstrip(".")
    if fingerprint.stage is Stage.COMPARE:
        if (of_eager := failure.missing_exception) is not None:
            return f"{where} of {program} raises nothing, where eager raises {of_eager.exception.rstrip('.')}."
        return f"{where} of {program} raises nothing, but {first[:1].lower()}{first[1:]}."
    when = "while it is traced" if case.while_tracing else _WHEN[fingerprint.stage]
    how = _HOW.get(fingerprint.kind)
    event = f"{how}: {code(failure.line)}" if how else f"it raises {code(failure.line)}"
    if (of_eager := case.failure.missing_exception) is not None:  # the compiled code ends the process
        return f"{where} of {program} fails {when}: {event}, where eager raises {of_eager.exception}."
    passes = outcome.summary is not None and ("eager", "passes") in outcome.summary.backends
    alone = ' With `backend="eager"` the same program runs.' if passes else ""
    if case.is_of_torch:
        alone = " Without torch.compile the same program runs." if outcome.passes_in_eager else ""
    return f"{where} of {program} fails {when}: {event}.{alone}"


def _written(backend: BackendReference) -> str:
    """Return the `backend=` expression, or the backend's name if that is long, and `mode=` and `options=`."""
    written = backend.expression
    if not written or written.startswith(('"', "'")):
        written = f'"{backend.name}"'
    elif len(written) > _MAX_EXPRESSION_CHARS or "\n" in written:
        written = backend.name
    mode = f", mode={literal(backend.mode)}" if backend.mode not in (None, "default") else ""
    options = f", options={literal(backend.options)}" if backend.options else ""
    return written + mode + (options if len(options) <= _MAX_EXPRESSION_CHARS else ", options=...")


def _program(outcome: Outcome) -> str:
    if outcome.minimal is None or outcome.summary is None:
        return "the script's graph"
    targets = list(dict.fromkeys(node.short_target for node in outcome.minimal.graph.ops))
    count = len(outcome.minimal.graph.ops)
    ops = " and ".join(code(target) for target in targets[:_MAX_NAMED_OPS])
    if count == 1:
        return f"a function with one op, {ops},"
    if 0 < len(targets) <= _MAX_NAMED_OPS:
        return f"a function with {count} ops, {ops},"
    return f"a function with {count} ops"


def duplicates(case: Case, key: str) -> Iterable[Section]:
    """Give words that find earlier reports of the same failure, and the failure's key."""
    fingerprint = case.failure.fingerprint
    parts = [fingerprint.types[0].rpartition(".")[2] if fingerprint.types else fingerprint.kind.value]
    parts += [fingerprint.site.function] if fingerprint.site is not None else []
    first = replace(fingerprint, message=headline(fingerprint.message))
    words = re.sub(r"<\w+>", " ", words_of(first, " "))
    parts += [*re.findall(r"[^\W\d](?:[\w.:-]*\w)?", words), *fingerprint.native.split()]
    ops = op_names(case)[:_MAX_NAMED_OPS]
    if fingerprint.stage is Stage.COMPARE:
        parts = [case.backend.name, *ops, "wrong", fingerprint.message]
    elif not fingerprint.types and fingerprint.kind is not Kind.SILENT_FALLBACK:  # the end of a process says little
        parts = [case.backend.name, *ops, _event(case.failure), fingerprint.native]
    sought = " ".join(filter(None, parts))
    stage = f"{fingerprint.stage.value}, {fingerprint.kind.value}"
    is_check = case.level is Level.SOURCE and "AssertionError" in fingerprint.types
    same = "A failing check of the same functions of torch" if is_check else f"The same failure ({stage})"
    text = f"Search for {code(sought)}. {same} has the same key: `{key}`."
    return sections_of("Finding duplicates", prose(text), level=3, weight=2)


def both_errors(outcome: Outcome) -> Iterable[Section]:
    """Show the script's failure and the repro's: errors of results, a traceback, or the output and what ended it."""
    failure = outcome.failure
    head = "The script with a check:" if outcome.case.script.sight else "Original:"  # by itself it shows nothing
    logged = _logged(failure.traceback or failure.message)
    blocks = [head, *([*_differences(failure), *_elements(outcome)] if failure.differences else logged)]
    if written := (outcome.minimal or outcome.case).failure.written:
        blocks += ["What native code wrote before that, or the innermost functions of its stack:", *_logged(written)]
    if outcome.verification is not None and outcome.verification.runs:
        run = outcome.verification.runs[0]
        seen = (run.failure.traceback if run.failure is not None else "") or run.output
        end = f"exit status {run.status}"
        if run.failure is not None and run.failure.fingerprint.kind in _ENDS:
            end = headline(run.failure.message)
        blocks += [prose(f"Repro ({end}):" if seen else f"Repro ({end}): it printed nothing."), *_logged(seen)]
    blocks.append(f"Compared by: {code(normalise(failure.fingerprint.sentence()))}")
    if failure.fingerprint.any_message:
        blocks.append("The message varies: any from the same function counts that shares half of its words.")
    return sections_of("Error logs", *blocks)


def _logged(text: str) -> Iterable[str]:
    """Show a text; of a traceback the frames of torch only on a click, but for its backends and the frame that raises.

    Nothing is shown of an empty text.
    """
    short = _FRAMES_OF_TORCH.sub(
        lambda run: run[0] if (n := len(_FRAME.findall(run[0]))) <= _FEW_FRAMES else f"  [{n} frames of torch]\n", text
    )
    if text:
        yield fence(cut(short, _MAX_TRACEBACK_LINES))
    if short != text:
        yield folded("With the frames of torch", fence(cut(text, _MAX_TRACEBACK_LINES)))


def cut(text: str, max_lines: int) -> str:
    """Cut a text of more than `max_lines` lines to about this length.

    A text loses its middle. In a traceback each exception keeps its innermost frames and the ends of its message.
    """
    lines = text.rstrip().splitlines()
    starts = [0, *(i for i, line in enumerate(lines) if i and _HEADER.match(line)), len(lines)]
    sections = [lines[start:end] for start, end in itertools.pairwise(starts)]
    allowed, left = dict.fromkeys(range(len(sections)), 0), max_lines
    for rank, number in enumerate(sorted(allowed, key=lambda number: len(sections[number]))):
        allowed[number] = min(len(sections[number]), left // (len(sections) - rank))
        left -= allowed[number]
    return "\n".join(line for n, section in enumerate(sections) for line in _cut_exception(section, allowed[n]))


def _cut_exception(lines: list[str], max_lines: int) -> list[str]:
    """Cut the traceback of an exception, or a text without frames."""
    frames = [number for number, line in enumerate(lines) if _FRAME.match(line)]
    if not frames:
        return _without_middle(lines, max_lines, max_lines // 2)
    behind = (number for number in range(frames[-1], len(lines)) if not lines[number].startswith((" ", "|")))
    end = next(behind, len(lines))
    message_lines = min(len(lines) - end, max(max_lines // 3, max_lines - end))
    message = _without_middle(lines[end:], message_lines, message_lines // 2)
    return [*_without_middle(lines[:end], max_lines - message_lines, max_lines // 6), *message]


def _without_middle(lines: list[str], max_lines: int, head: int) -> list[str]:
    """Return `max_lines` of the lines, the first `head` of them from the beginning, with a note between."""
    if len(lines) <= max_lines:
        return lines
    tail = len(lines) - (max_lines - head)
    return [*lines[:head], f"[{tail - head} lines left out]", *lines[tail:]]


def _differences(failure: Failure) -> Iterable[str]:
    """Show the error of each wrong result and eager's own in a table, other differences as sentences."""
    shown = failure.differences[:_MAX_DIFFERENCES]
    if rows := [(d.where, d.aspect.value, _number(d.error), _number(d.eager_error)) for d in shown if d.error]:
        yield "The largest error of an element against double precision, absolute, in units of the result:"
        yield table(("result", "what", "error of compiled", "error of eager"), rows)
    yield items(d.sentence for d in shown if not d.error)
    if (more := len(failure.differences) - len(shown)) > 0:
        yield f"{counted(more, 'more difference')}."


def _elements(outcome: Outcome) -> Iterable[str]:
    """List the elements that are furthest from eager's, of the repro's first wrong result.

    They are left out if the repro reads its inputs from a file: values of a user's data are not shown.
    """
    if outcome.repro is None or outcome.repro.tensors is not None:
        return
    first = next((each for each in outcome.shown_failure.differences if each.elements), None)
    if first is None:
        return
    rows = [
        (", ".join(map(str, each.index)) or "()", each.compiled, each.eager, _number(each.ulps))
        for each in first.elements
    ]
    yield prose(f"Elements of {first.where} of the repro that are furthest from eager's:")
    yield table(("index", "compiled", "eager", "ulps"), rows)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"
