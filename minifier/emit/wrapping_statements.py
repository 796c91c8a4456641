"""Wrap the last statements of a template: state, earlier calls, repetition, limits of time and memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from minifier.case.literals import literal
from minifier.emit.statements import Statement, code_of, parsed, transformed, under, under_contexts

THE_END = "It was not ended."  # last output of a script whose failure would end it early with status 0
_COMPILE = m.Call(func=m.Attribute(value=m.Name("torch"), attr=m.Name("compile")))
# Compiles, or calls compiled code. Earlier statements need no repetition and cannot hang.
_COMPILE_OR_RUN = m.OneOf(_COMPILE, m.Call(func=m.OneOf(m.Name("compiled"), m.Name("lookup_backend"))))
# Calls the function, compiled or not: these statements need the state of the Case.
_CALL_OF_FUNCTION = m.Call(func=m.OneOf(m.Call(), m.Name("compiled"), m.Name("compiler"), m.Name("fn")))


@dataclass(frozen=True, slots=True)
class Wrapping:
    """Code around the last statements of a script."""

    before: tuple[str | int, ...] = ()  # earlier calls: a statement, or how often those of the template come
    calls: int = 1  # of the compiled function in a row; the last one fails
    attempts: int = 1
    recompile: bool = True  # in each attempt
    timeout_seconds: int = 0  # ends a script that hangs; 0: no limit
    memory_gib: int = 0  # ends a script that exhausts memory; 0: no limit
    waits: bool = False  # for the device at the end: the failing kernel is asynchronous
    prints_end: bool = False  # prints THE_END at the end, if nothing else shows that the failure is absent


class _Hoist(cst.CSTTransformer):
    """Replaces `torch.compile(...)` in an expression by `compiled`, and keeps the call."""

    def __init__(self) -> None:
        super().__init__()
        self.call: cst.Call | None = None

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        if m.matches(updated_node, _COMPILE):
            self.call = updated_node
            return cst.Name("compiled")
        return updated_node


def _hoisted(statements: list[Statement]) -> tuple[list[Statement], list[Statement]]:
    """Return (`compiled = torch.compile(...)`, other statements). The first list is empty without torch.compile."""
    hoist = _Hoist()
    rest: list[Statement] = []
    for statement in statements:
        if code_of(statement).startswith("compiled = torch.compile("):
            return [statement], [s for s in statements if s is not statement]
        rest.append(transformed(statement, hoist))
    if hoist.call is None:
        return [], statements
    return parsed([f"compiled = {code_of(hoist.call)}"]), rest


def _in_state(statements: list[Statement], contexts: Sequence[str]) -> list[Statement]:
    """Put the statements from the first to the last call of the function under the contexts."""
    calls = [i for i, s in enumerate(statements) if m.findall(s, _CALL_OF_FUNCTION)]
    if not contexts or not calls:
        return statements
    first, end = calls[0], calls[-1] + 1
    return [*statements[:first], under_contexts(statements[first:end], contexts), *statements[end:]]


def _merged(statements: list[Statement]) -> list[Statement]:
    """Put the bodies of successive `with` statements of the same contexts into one."""
    merged: list[Statement] = []
    for statement in statements:
        before = merged[-1] if merged else None
        if (
            isinstance(statement, cst.With)
            and isinstance(before, cst.With)
            and _contexts(before) == _contexts(statement)
        ):
            body = before.body.with_changes(body=[*before.body.body, *statement.body.body])
            merged[-1] = before.with_changes(body=body)
        else:
            merged.append(statement)
    return merged


def _contexts(statement: cst.With) -> list[str]:
    return [code_of(item) for item in statement.items]


def _repeated(times: int, body: list[Statement]) -> list[Statement]:
    return [under(f"for _ in range({times}):", body)] if times > 1 else body


def wrap(
    statements: list[Statement], contexts: Sequence[str], wrapping: Wrapping
) -> tuple[list[Statement], tuple[str, ...]]:
    """Return (wrapped statements, imports that they need)."""
    has_loop = any(isinstance(s, cst.For) for s in statements)  # in the template
    head: list[Statement] = []
    repeats = (wrapping.calls > 1 and not has_loop) or (wrapping.attempts > 1 and not wrapping.recompile)
    if repeats or any(isinstance(each, int) or "compiled(" in each for each in wrapping.before):
        head, statements = _hoisted(statements)
    elif has_loop:
        head, statements = statements[:1], statements[1:]
    statements = _in_state(statements, contexts)
    start = next((i for i, s in enumerate(statements) if m.findall(s, _COMPILE_OR_RUN)), 0)
    before, body = statements[:start], statements[start:]
    imports: tuple[str, ...] = ()
    earlier: list[Statement] = []
    for each in wrapping.before:
        earlier += _repeated(each, body) if isinstance(each, int) else _in_state(parsed([each]), contexts)
    body = _merged([*earlier, *(body if has_loop else _repeated(wrapping.calls, body))])
    if seconds := wrapping.timeout_seconds:
        imports = (*imports, "import faulthandler")
        guard = f"faulthandler.dump_traceback_later({seconds}, exit=True)  # it hangs: this ends it after {seconds} s"
        body = [*parsed([guard]), *body]
    if gib := wrapping.memory_gib:
        imports = (*imports, "import resource")
        guard = f"resource.setrlimit(resource.RLIMIT_DATA, ({gib} << 30, {gib} << 30))"
        before = [*before, *parsed([f"{guard}  # it takes all memory: this ends it at {gib} GiB"])]
    if wrapping.attempts > 1 and wrapping.recompile:
        body, head = [*parsed(["torch.compiler.reset()"]), *head, *body], []
    if wrapping.attempts > 1:
        body = [under(f"for attempt in range({wrapping.attempts}):", body)]
    end = ["torch.accelerator.synchronize()"] if wrapping.waits else []
    end += [f"print({literal(THE_END)})"] if wrapping.prints_end else []
    return [*before, *head, *body, *parsed(end)], imports
