"""The passes over a script: rows of edits, in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from minifier.source.classes import classes_as_functions
from minifier.source.inlining import with_qualified_names, without_functions
from minifier.source.modules import with_modules
from minifier.source.parameters import without_parameters
from minifier.source.plain_forms import (
    shorter_tuples,
    with_unread_value_returned,
    without_aliases,
    without_displays,
    without_targets,
)
from minifier.source.put_value import Edited
from minifier.source.statement_edits import bodies, elements, ones, operands
from minifier.source.values import small_values, without_comments


@dataclass(frozen=True, slots=True)
class SourcePass:
    """A family of edits of a script. `edits(module)` yields the module after one edit.

    An edit may change what the script does: the probe decides.
    """

    name: str
    sentence: str
    edits: Callable[[cst.Module], Iterator[Edited]]


PASSES: tuple[SourcePass, ...] = (
    SourcePass("comments", "comments", without_comments),
    SourcePass("classes", "a class to functions of its methods", classes_as_functions),
    SourcePass("tuples", "one target of `a, b = x, y` together with its value", shorter_tuples),
    SourcePass("targets", "`a = f(x)` to `f(x)`", without_targets),
    SourcePass(
        "aliases", "a variable that is used once, or names a name, its value being put in its place", without_aliases
    ),
    SourcePass(
        "displays", "a list or tuple of one element to the element, its loops to their bodies", without_displays
    ),
    SourcePass("returns", "an unread last value to the value returned", with_unread_value_returned),
    SourcePass(
        "functions", "a function that is called once, its body being put in the place of the call", without_functions
    ),
    SourcePass("imports", "an import of a name from a module that is imported itself", with_qualified_names),
    SourcePass("parameters", "a parameter together with its arguments", without_parameters),
    SourcePass("blocks", "`for`, `if`, `while`, `with` and `try`, their body being put in their place", bodies),
    SourcePass("elements", "arguments, decorators, bases, elements, defaults, annotations, branches", elements),
    SourcePass("operands", "an expression to one of its operands", operands),
    SourcePass("ones", "an argument or an assigned value to 1", ones),
    SourcePass("numbers", "every occurrence of a number to 1 or 2", small_values),
)


def modules_pass(folders: Sequence[str]) -> SourcePass:
    """Return the pass that puts definitions in the place of an import from these folders."""
    return SourcePass("modules", MODULES[1], lambda module: with_modules(module, folders))


MODULES = ("modules", "an import of a module next to the script, its definitions being put in its place")

# Name and description of every pass, for the user.
TABLE: tuple[tuple[str, str], ...] = (
    ("statements", "statements that the failure does not need, at all depths"),
    MODULES,
    *((each.name, each.sentence) for each in PASSES),
)
