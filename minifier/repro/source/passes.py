"""The passes over a script: rows of edits, in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import libcst as cst

from minifier.repro.source.classes import classes_as_attributes, classes_as_functions, without_empty_classes
from minifier.repro.source.inlining import with_modules, with_qualified_names, without_functions
from minifier.repro.source.parameters import without_parameters
from minifier.repro.source.patches import Edited, Located, Patch
from minifier.repro.source.plain_forms import (
    short_names,
    shorter_tuples,
    without_aliases,
    without_comments,
    without_displays,
    without_targets,
)
from minifier.repro.source.statement_edits import bodies, elements, operands
from minifier.repro.source.values import SmallNumbers, values_as_one

Lister = Callable[[Located], Iterable[Edited | Patch]]
"""Lists the edits of a source. An edit may change what the script does: the probe decides."""


@dataclass(frozen=True, slots=True)
class SourcePass:
    """A family of edits of a script. `begin` returns their lister, for one walk over the edits.

    `is_adaptive`: the lister is asked until it lists nothing, since its edits depend on what became of the last.
    """

    name: str
    sentence: str
    begin: Callable[[], Lister]
    is_adaptive: bool = False


def of_module(edits: Callable[[cst.Module], Iterable[Edited]]) -> Callable[[], Lister]:
    """Return the `begin` of a pass whose edits depend on the module alone."""
    return lambda: lambda located: edits(located.module)


# Tried until none of them has an edit that keeps the failure: what these take away needs no finer edit. An operand is
# tried ahead of a new value: a function that is left with its parameter and one call is this call.
COARSE_PASSES: tuple[SourcePass, ...] = (
    SourcePass(
        "blocks", "`for`, `if`, `while`, `with` and `try`, their body being put in their place", of_module(bodies)
    ),
    SourcePass(
        "functions",
        "a function that is called once or only returns a value, its body being put in the place of the call",
        of_module(without_functions),
    ),
    SourcePass("bases", "a class without a body to its base", of_module(without_empty_classes)),
    SourcePass("instances", "an instance of a class to one of its attributes", of_module(classes_as_attributes)),
    SourcePass("classes", "a class to functions of its methods", of_module(classes_as_functions)),
    SourcePass("parameters", "a parameter together with its arguments", of_module(without_parameters)),
    SourcePass("tuples", "one target of `a, b = x, y` together with its value", of_module(shorter_tuples)),
    SourcePass("targets", "`a = f(x)` to `f(x)`", of_module(without_targets)),
    SourcePass(
        "aliases",
        "a variable that is used once, or names a name, its value being put in its place",
        of_module(without_aliases),
    ),
    SourcePass(
        "displays",
        "a list or tuple of one element to the element, its loops to their bodies",
        of_module(without_displays),
    ),
    SourcePass("imports", "an import of a name from a module that is imported itself", of_module(with_qualified_names)),
    SourcePass("operands", "an expression to one of its operands", of_module(operands)),
)

FINE_PASSES: tuple[SourcePass, ...] = (
    SourcePass(
        "elements", "arguments, decorators, bases, elements, defaults, annotations, branches", of_module(elements)
    ),
    SourcePass("ones", "an argument or an assigned value to 1", of_module(values_as_one)),
    SourcePass("numbers", "numbers to 1, or the smallest that fails", lambda: SmallNumbers().edits, is_adaptive=True),
)

# Tried last, and once: these change no statement.
LAST_PASSES: tuple[SourcePass, ...] = (
    SourcePass("names", "long names to short ones", lambda: short_names),
    SourcePass("comments", "comments", of_module(without_comments)),
)


PASSES = (*COARSE_PASSES, *FINE_PASSES, *LAST_PASSES)


def modules_pass(folders: Sequence[str]) -> SourcePass:
    """Return the pass that puts definitions in the place of an import from these folders."""
    return SourcePass("modules", MODULES[1], of_module(lambda module: with_modules(module, folders)))


MODULES = ("modules", "an import of a module next to the script, its definitions being put in its place")

STATEMENTS = ("statements", "statements that the failure does not need, at all depths")

ALIKE = ("alike", "what several places have in common, like `.mean()`, at all of them at once")

# Name and description of every pass, for the user.
TABLE: tuple[tuple[str, str], ...] = (
    STATEMENTS,
    MODULES,
    *((each.name, each.sentence) for each in COARSE_PASSES),
    ALIKE,
    *((each.name, each.sentence) for each in (*FINE_PASSES, *LAST_PASSES)),
)
