"""What is put around the last statements of a template: state, repetition, a first call, an end to a hang or to a
hunger for memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from minifier.case.literals import literal
from minifier.emit.statements import Statement, code_of, parsed, under, under_contexts

THE_END = "It was not ended."  # what a script prints at last whose failure is to end with status 0
_COMPILE = m.Call(func=m.Attribute(value=m.Name("torch"), attr=m.Name("compile")))
# What asks a backend for anything: before it, nothing has to be repeated, nothing can hang.
_ASKING = m.OneOf(_COMPILE, m.Call(func=m.OneOf(m.Name("compiled"), m.Name("lookup_backend"))))
# What is done in the state of the Case: calls of the function, compiled or not.
_CALLING = m.Call(func=m.OneOf(m.Call(), m.Name("compiled"), m.Name("compiler"), m.Name("fn")))


@dataclass(frozen=True, slots=True)
class Surroundings:
    """`calls`: how often the compiled function is called, the failure showing at the last. `warm_up`: arguments
    of a first call, of another size. `attempts`: how often all is tried; `recompile`: each time from the start.
    `patience`: seconds after which a script that hangs is ended; 0 for one that does not. `gibibytes`: at what size a
    script is ended that takes all memory; 0 for one that does not. `tells_end`: whether a script says that it came to
    its end, where nothing else tells a failure."""

    calls: int = 1
    warm_up: tuple[str, ...] = ()
    attempts: int = 1
    recompile: bool = True
    patience: int = 0
    gibibytes: int = 0
    tells_end: bool = False


class _Hoist(cst.CSTTransformer):
    """Takes `torch.compile(...)` out of an expression; `compiled` stands for it there."""

    def __init__(self) -> None:
        super().__init__()
        self.taken: cst.Call | None = None

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        if m.matches(updated_node, _COMPILE):
            self.taken = updated_node
            return cst.Name("compiled")
        return updated_node


def _hoisted(statements: list[Statement]) -> tuple[list[Statement], list[Statement]]:
    """(`compiled = torch.compile(...)`, the other statements); the first is empty if nothing is compiled so."""
    hoist = _Hoist()
    rest: list[Statement] = []
    for statement in statements:
        if code_of(statement).startswith("compiled = torch.compile("):
            return [statement], [s for s in statements if s is not statement]
        changed = statement.visit(hoist)
        assert isinstance(changed, (cst.SimpleStatementLine, cst.BaseCompoundStatement))
        rest.append(changed)
    if hoist.taken is None:
        return [], statements
    return parsed([f"compiled = {code_of(hoist.taken)}"]), rest


def _in_state(statements: list[Statement], contexts: Sequence[str]) -> list[Statement]:
    """The statements from the first to the last that call the function, compiled or not, under the contexts."""
    calling = [i for i, s in enumerate(statements) if m.findall(s, _CALLING)]
    if not contexts or not calling:
        return statements
    first, last = calling[0], calling[-1] + 1
    return [*statements[:first], under_contexts(statements[first:last], contexts), *statements[last:]]


def surrounded(
    statements: list[Statement], contexts: Sequence[str], around: Surroundings
) -> tuple[list[Statement], tuple[str, ...]]:
    """(the statements with all that put around them, the imports that it takes)."""
    repeated = any(isinstance(s, cst.For) for s in statements)  # by the template itself
    head: list[Statement] = []
    if (around.calls > 1 and not repeated) or around.warm_up or (around.attempts > 1 and not around.recompile):
        head, statements = _hoisted(statements)
    elif repeated:
        head, statements = statements[:1], statements[1:]
    statements = _in_state(statements, contexts)
    start = next((i for i, s in enumerate(statements) if m.findall(s, _ASKING)), 0)
    before, body = statements[:start], statements[start:]
    imports: tuple[str, ...] = ()
    if around.calls > 1 and not repeated:
        body = [under(f"for _ in range({around.calls}):", body)]
    if around.warm_up:
        other = f"compiled({', '.join(around.warm_up)})  # another size: from now on it is a symbol"
        body = [*_in_state(parsed([other]), contexts), *body]
    if around.patience:
        imports = ("import faulthandler",)
        seconds = around.patience
        guard = f"faulthandler.dump_traceback_later({seconds}, exit=True)  # it hangs: this ends it after {seconds} s"
        body = [*parsed([guard]), *body]
    if around.gibibytes:
        imports = (*imports, "import resource")
        most = around.gibibytes
        guard = f"resource.setrlimit(resource.RLIMIT_DATA, ({most} << 30, {most} << 30))"
        before = [*before, *parsed([f"{guard}  # it takes all memory: this ends it at {most} GiB"])]
    if around.attempts > 1 and around.recompile:
        body, head = [*parsed(["torch._dynamo.reset()"]), *head, *body], []
    if around.attempts > 1:
        body = [under(f"for attempt in range({around.attempts}):", body)]
    end = parsed([f"print({literal(THE_END)})"]) if around.tells_end else []
    return [*before, *head, *body, *end], imports
