"""Find the seeds of the random numbers that a module draws: a slice needs them to draw the same numbers."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

import libcst as cst
import libcst.matchers as m

from minifier.slicing.module_statements import Statement, dotted, names_of_definitions

# Functions that seed the generator of torch, Python or NumPy.
_SEED = re.compile(
    r"^torch\.(random\.|cuda\.|mps\.|xpu\.)?manual_seed(_all)?$|^random\.seed$|^(np|numpy)\.random\.seed$"
)
# Functions that draw numbers, methods that draw in place, and modules that draw their parameters.
_DRAWS = re.compile(
    r"(^|\.)(rand\w*|normal_?|uniform_?|bernoulli_?|multinomial|exponential_|choices?|shuffle|sample|permutation"
    r"|standard_\w+|gauss|\w*variate|(xavier|kaiming|trunc)_\w+|orthogonal_)$|^(torch\.)?nn\.(\w+\.)*[A-Z]\w*$"
    r"|^(Linear|Conv\dd|Embedding|LSTM|GRU|MultiheadAttention)$"
)


def seeds_for(run: Sequence[Statement], kept: Collection[Statement]) -> list[Statement]:
    """Return the last seeding statement of each generator before each kept statement that draws.

    Only seeds that are integers, or names of integers, are known and count.
    """
    drawing = names_of_definitions(kept, _draws)
    seeding = names_of_definitions(run, lambda statement: bool(_seeds(statement)))
    numbers = {name for statement in run if _is_number(statement) for name in statement.binds}
    latest: dict[str, Statement] = {}
    needed: dict[Statement, None] = {}
    for statement in run:
        if statement.is_definition:
            continue
        if statement in kept and (statement.calls & drawing or _draws(statement)):
            needed |= dict.fromkeys(latest.values())
        for name in _seeds(statement) or sorted(statement.calls & seeding):
            if _has_known_seed(statement, numbers):
                latest[name] = statement
    return list(needed)


def _is_number(statement: Statement) -> bool:
    return any(isinstance(small, cst.Assign) and isinstance(small.value, cst.Integer) for small in statement.small)


def _has_known_seed(statement: Statement, numbers: set[str]) -> bool:
    """Return whether all arguments are integers or names of integers: a slice knows no command-line arguments."""
    calls = [call for call in m.findall(statement.node, m.Call()) if isinstance(call, cst.Call)]
    values = [argument.value for call in calls for argument in call.args]
    return bool(statement.small) and all(
        isinstance(value, cst.Integer) or (isinstance(value, cst.Name) and value.value in numbers) for value in values
    )


def _draws(statement: Statement) -> bool:
    return any(_DRAWS.search(name) for name in _calls(statement))


def _seeds(statement: Statement) -> list[str]:
    return [name for name in _calls(statement) if _SEED.search(name)]


def _calls(statement: Statement) -> Iterator[str]:
    """Yield the dotted names of called functions; the bare method name if the object is an expression."""
    for call in m.findall(statement.node, m.Call()):
        assert isinstance(call, cst.Call)
        method = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
        yield dotted(call.func) or method
