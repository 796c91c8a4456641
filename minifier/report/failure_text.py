"""Describe a failure in a report: in a sentence, in a table, and in words to search for."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import replace

from minifier.case import BackendReference, Case, Level, TensorInput
from minifier.case.symbolic_sizes import is_symbolic
from minifier.failure import Failure, Fingerprint, Kind, Stage
from minifier.failure.normalise import headline, normalise
from minifier.report.blocks import Block, Code, Section, Table, Text, cut, sections_of
from minifier.report.outcome import Outcome
from minifier.report.privacy import without_source

_MAX_TRACEBACK_LINES = 60
_MAX_DIFFERENCES = 8
_MAX_NAMED_OPS = 3
_MAX_EXPRESSION_CHARS = 60

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
_HOW = {
    Kind.SIGNAL: "the process is killed",
    Kind.EXIT: "the process ends",
    Kind.TIMEOUT: "it never ends",
    Kind.OUT_OF_MEMORY: "memory runs out",
    Kind.SILENT_FALLBACK: "the backend logs that it does something else",
}


def title_of(case: Case) -> str:
    """Return the title of an issue about the failure: `[backend] SIGFPE compiling torch.matmul with an empty input`."""
    failure, name = case.failure, case.backend.name
    stage, kind = failure.fingerprint.stage, failure.fingerprint.kind
    if case.level is Level.SOURCE:
        return f"[{name}] {_event(failure)} in torch.compile"
    if stage is Stage.COMPARE:
        return f"[{name}] unlike eager ({failure.fingerprint.message}): {_ops(case)}{_condition(case)}"
    if kind is Kind.SILENT_FALLBACK:
        return f"[{name}] silent fallback {_DOING[stage]} {_ops(case)}{_condition(case)}"
    return f"[{name}] {_event(failure)} {_DOING[stage]} {_ops(case)}{_condition(case)}"


def _event(failure: Failure) -> str:
    """Return the exception's type, the signal, the exit status, or words for a hang or a lack of memory."""
    if failure.fingerprint.kind is Kind.EXCEPTION:
        return failure.type.rpartition(".")[2]
    return {Kind.TIMEOUT: "no end", Kind.OUT_OF_MEMORY: "out of memory"}.get(
        failure.fingerprint.kind, failure.fingerprint.message
    )


def _ops(case: Case) -> str:
    ops = {node.name: f"Tensor.{node.target}" if node.op == "call_method" else node.target for node in case.graph.ops}
    names = list(dict.fromkeys(target.removeprefix("torch.ops.") for target in ops.values()))
    return " and ".join(names) if 0 < len(names) <= _MAX_NAMED_OPS else f"a graph of {len(ops)} ops"


def _condition(case: Case) -> str:
    if any(isinstance(item, TensorInput) and 0 in item.meta.shape for item in case.inputs):
        return " with an empty input"
    if case.symbolic is None:
        return ""
    return " with dynamic sizes" if is_symbolic(case) else " with a dynamic number"


def sentence_of(outcome: Outcome) -> str:
    """Describe the failure for somebody who has never seen the script."""
    case = outcome.minimal or outcome.case
    failure = case.failure
    program = _program(outcome)
    where = f"`torch.compile(..., backend={_written(case.backend)})`"
    if case.level is Level.SOURCE:
        return f"`torch.compile` fails with `{failure.line}`; without it the script runs."
    first = headline(failure.message).rstrip(".")
    if failure.fingerprint.stage is Stage.COMPARE:
        return f"{where} of {program} raises nothing, but {first[:1].lower()}{first[1:]}."
    when = "while it is traced" if case.while_tracing else _WHEN[failure.fingerprint.stage]
    how = _HOW.get(failure.fingerprint.kind)
    event = f"{how}: `{failure.line}`" if how else f"it raises `{_shown_failure(outcome).line}`"
    passes = outcome.summary is not None and ("eager", "passes") in outcome.summary.backends
    alone = " Without a backend the same program runs." if passes else ""
    if case.while_tracing:
        alone = " Without torch.compile the same program runs." if outcome.passes_in_eager else ""
    return f"{where} of {program} fails {when}: {event}.{alone}"


def _shown_failure(outcome: Outcome) -> Failure:
    """Return the failure that the verified repro shows, else the Case's, which may name removed ops."""
    runs = outcome.verification.runs if outcome.verification is not None and outcome.verification.agrees else ()
    seen = runs[0].failure if runs else None
    return seen if seen is not None else (outcome.minimal or outcome.case).failure


def _written(backend: BackendReference) -> str:
    """Return the `backend=` expression if short, else the backend's name."""
    code = backend.expression
    return code if code and len(code) <= _MAX_EXPRESSION_CHARS and "\n" not in code else f'"{backend.name}"'


def _program(outcome: Outcome) -> str:
    if outcome.minimal is None or outcome.summary is None:
        return "the script's graph"
    targets = list(dict.fromkeys(node.short_target for node in outcome.minimal.graph.ops))
    count = len(outcome.minimal.graph.ops)
    whole = "function" if outcome.minimal.level is Level.DYNAMO else "graph of AOTAutograd's"
    ops = " and ".join(f"`{target}`" for target in targets[:_MAX_NAMED_OPS])
    if count == 1:
        return f"a {whole} with one op, {ops},"
    if len(targets) <= _MAX_NAMED_OPS:
        return f"a {whole} with {count} ops, {ops},"
    return f"a {whole} with {count} ops"


def short_identity(case: Case) -> str:
    """Return twelve hexadecimal digits, equal for equal failures, to find duplicates.

    A wrong result has no message of its own, so the backend and the ops are included."""
    fingerprint = case.failure.fingerprint
    raising = fingerprint.raising
    frames = [(raising.module, raising.function) if raising is not None else None]
    message = _words(fingerprint, "<node>")
    identity = [fingerprint.stage.value, fingerprint.kind.value, fingerprint.types, frames, message]
    identity += [fingerprint.native] if fingerprint.native else []
    identity += [case.backend.name, *_targets(case)] if fingerprint.stage is Stage.COMPARE else []
    return hashlib.blake2b(json.dumps(identity).encode(), digest_size=6).hexdigest()


def _targets(case: Case) -> list[str]:
    return sorted({node.short_target for node in case.graph.ops})


def _words(fingerprint: Fingerprint, node: str) -> str:
    """Return the normalised message with `node` in the place of node names, which a user chose."""
    text = normalise(fingerprint.message)
    for name in fingerprint.names:
        text = re.sub(rf"(?<![\w.]){re.escape(name)}(?![\w.])", node, text)
    return " ".join(text.split())


def duplicates(case: Case) -> Iterable[Section]:
    """Give words that find earlier reports of the same failure."""
    fingerprint = case.failure.fingerprint
    parts = [fingerprint.types[0].rpartition(".")[2] if fingerprint.types else fingerprint.kind.value]
    parts += [fingerprint.site.function] if fingerprint.site is not None else []
    first = replace(fingerprint, message=headline(fingerprint.message))
    parts.append(" ".join(re.sub(r"<\w+>", " ", _words(first, " ")).split()))
    parts.append(" ".join(fingerprint.native.split()))
    if fingerprint.stage is Stage.COMPARE:
        parts = [case.backend.name, *_targets(case)[:_MAX_NAMED_OPS], "wrong", fingerprint.message]
    words = " ".join(filter(None, parts))
    stage = f"{fingerprint.stage.value}, {fingerprint.kind.value}"
    text = f"Search for `{words}`. The same failure ({stage}) has the same fingerprint: `{short_identity(case)}`."
    return sections_of("Finding duplicates", Text(text), level=3, weight=2)


def _verdict(outcome: Outcome) -> str:
    runs, agreeing = outcome.verified
    if not runs:
        return "The repro was not run."
    if outcome.passes_in_eager is False:
        return "**No repro**: it fails with eager in the place of the backend too."
    if agreeing == runs:
        eager = " With eager in the place of the backend it passes." if outcome.passes_in_eager else ""
        same = f"Same failure: {agreeing} of {runs} runs in fresh interpreters showed the fingerprint of the original."
        return same + eager
    return f"**Not the same**: only {agreeing} of {runs} runs in fresh interpreters showed the original's fingerprint."


def both_errors(outcome: Outcome) -> Iterable[Section]:
    """Show the script's failure and the repro's: a traceback, or the output before a death."""
    failure = outcome.case.failure
    blocks: list[Block] = [Text(_verdict(outcome))]
    if failure.differences:
        blocks.append(_differences(failure))
    else:
        blocks += [Text("Original:"), Code(_shown(failure.traceback or failure.message))]
    if written := (outcome.minimal or outcome.case).failure.written:
        blocks += [Text("Written by native code before that:"), Code(_shown(written))]
    if outcome.verification is not None and outcome.verification.runs:
        run = outcome.verification.runs[0]
        seen = run.failure.traceback if run.failure is not None else run.output
        blocks += [Text("Repro:"), Code(_shown(seen or run.output or "(it printed nothing)"))]
    blocks.append(Text(f"Compared by: `{normalise(failure.fingerprint.sentence())}`"))
    if failure.fingerprint.any_message:
        blocks.append(Text("The message varies: any from the same function counts that shares half of its words."))
    return sections_of("Error logs", *blocks)


def _shown(trace: str) -> str:
    return cut(without_source(trace), _MAX_TRACEBACK_LINES)


def _differences(failure: Failure) -> Table:
    """List the error of each result that differs from eager's."""
    shown = failure.differences[:_MAX_DIFFERENCES]
    rows = [
        (d.where, d.aspect.value, *map(_number, (d.error, d.eager_error, d.noise)), "" if d.error else d.sentence)
        for d in shown
    ]
    if len(failure.differences) > len(shown):
        rows.append((f"and {len(failure.differences) - len(shown)} more", "", "", "", "", ""))
    head = ("where", "what", "error", "eager's own error", "noise of eager", "")
    columns = len(head) if any(row[-1] for row in rows) else len(head) - 1
    return Table(head[:columns], tuple(row[:columns] for row in rows))


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"
