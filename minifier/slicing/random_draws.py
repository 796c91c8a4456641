"""Random numbers that a module draws when it is run: what a slice keeps of them comes out the same only after the same
seeds."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence

import libcst as cst
import libcst.matchers as m

from minifier.slicing.module_statements import Statement, dotted

# What sets the seed of a generator: torch's, Python's and NumPy's.
_SEED = re.compile(
    r"^torch\.(random\.|cuda\.|mps\.|xpu\.)?manual_seed(_all)?$|^random\.seed$|^(np|numpy)\.random\.seed$"
)
# Functions that draw, methods that do in place, and modules that draw their parameters.
_DRAWS = re.compile(
    r"(^|\.)(rand\w*|normal_?|uniform_?|bernoulli_?|multinomial|exponential_|choices?|shuffle|sample|permutation"
    r"|standard_\w+|gauss|\w*variate|(xavier|kaiming|trunc)_\w+|orthogonal_)$|^(torch\.)?nn\.(\w+\.)*[A-Z]\w*$"
    r"|^(Linear|Conv\dd|Embedding|LSTM|GRU|MultiheadAttention)$"
)


def seeds_for(run: Sequence[Statement], kept: Collection[Statement]) -> list[Statement]:
    """Ahead of each statement that is kept and draws the last one that sets a seed, for each generator; those alone
    whose seed stands there, as a number or under a name of one."""
    drawing = _named([each for each in kept if _is_definition(each)], _draws)
    seeding = _named([each for each in run if _is_definition(each)], lambda each: bool(_seeds(each)))
    numbers = {name for each in run if _is_number(each) for name in each.binds}
    latest: dict[str, Statement] = {}
    found: dict[Statement, None] = {}
    for each in run:
        if _is_definition(each):
            continue
        if each in kept and (each.calls & drawing or _draws(each)):
            found |= dict.fromkeys(latest.values())
        for name in _seeds(each) or sorted(each.calls & seeding):
            if _is_known(each, numbers):
                latest[name] = each
    return list(found)


def _named(definitions: Sequence[Statement], does: Callable[[Statement], bool]) -> set[str]:
    """The names of functions and classes that do something, or call one that does."""
    found: set[str] = set()
    while more := {n for d in definitions if d.reads & found or does(d) for n in d.binds} - found:
        found |= more
    return found


def _is_definition(statement: Statement) -> bool:
    return isinstance(statement.node, (cst.FunctionDef, cst.ClassDef))


def _is_number(statement: Statement) -> bool:
    return any(isinstance(part, cst.Assign) and isinstance(part.value, cst.Integer) for part in statement.parts)


def _is_known(statement: Statement, numbers: set[str]) -> bool:
    """Whether its calls are given numbers, or names of them: what a script is told is not known to a slice."""
    calls = [call for call in m.findall(statement.node, m.Call()) if isinstance(call, cst.Call)]
    given = [argument.value for call in calls for argument in call.args]
    return bool(statement.parts) and all(
        isinstance(value, cst.Integer) or (isinstance(value, cst.Name) and value.value in numbers) for value in given
    )


def _draws(statement: Statement) -> bool:
    return any(_DRAWS.search(name) for name in _calls(statement))


def _seeds(statement: Statement) -> list[str]:
    return [name for name in _calls(statement) if _SEED.search(name)]


def _calls(statement: Statement) -> Iterator[str]:
    """The functions that are called in it, as names with dots; of methods of whatever it is the name alone."""
    for call in m.findall(statement.node, m.Call()):
        assert isinstance(call, cst.Call)
        method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
        yield dotted(call.func) or method
