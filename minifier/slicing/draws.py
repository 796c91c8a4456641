"""Random numbers that a module draws when it is run: what a slice keeps of them comes out the same only after the same
seeds."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

import libcst as cst
import libcst.matchers as m

from minifier.slicing.statements import Statement, dotted

_SEEDS = {"manual_seed", "manual_seed_all", "seed", "set_seed", "seed_everything"}
# Functions that draw, methods that do in place, and modules that draw their parameters.
_DRAWS = re.compile(
    r"(^|\.)(rand\w*|normal_?|uniform_?|bernoulli_?|multinomial|exponential_|choices?|shuffle|sample|permutation"
    r"|(xavier|kaiming|trunc)_\w+|orthogonal_)$|^(torch\.)?nn\.(\w+\.)*[A-Z]\w*$"
)


def seeds_for(run: Sequence[Statement], kept: Collection[Statement]) -> list[Statement]:
    """The last statements that set a seed, one for each generator, ahead of the first of those kept that draws."""
    drawing = _drawing([each for each in kept if _is_definition(each)])
    latest: dict[str, Statement] = {}
    for each in run:
        if each in kept and not _is_definition(each) and (each.calls & drawing or _draws(each)):
            return list(latest.values())
        for name in _calls(each) if _is_call_alone(each) else ():
            if name.rpartition(".")[2] in _SEEDS:
                latest[name] = each
    return []


def _drawing(definitions: Sequence[Statement]) -> set[str]:
    """The names of functions and classes that draw, or call one that does."""
    found: set[str] = set()
    while more := {n for d in definitions if d.reads & found or _draws(d) for n in d.binds} - found:
        found |= more
    return found


def _is_definition(statement: Statement) -> bool:
    return isinstance(statement.node, (cst.FunctionDef, cst.ClassDef))


def _is_call_alone(statement: Statement) -> bool:
    return any(isinstance(part, cst.Expr) and isinstance(part.value, cst.Call) for part in statement.parts)


def _draws(statement: Statement) -> bool:
    return any(_DRAWS.search(name) for name in _calls(statement))


def _calls(statement: Statement) -> Iterator[str]:
    """The functions that are called in it, as names with dots; of methods of whatever it is the name alone."""
    for call in m.findall(statement.node, m.Call()):
        assert isinstance(call, cst.Call)
        method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
        yield dotted(call.func) or method
