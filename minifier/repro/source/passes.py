"""The passes over a script: families of edits, in the order in which they are tried."""

from __future__ import annotations

from dataclasses import dataclass

from minifier.repro.source import edits
from minifier.repro.source.edit_search import Lister


@dataclass(frozen=True, slots=True)
class SourcePass:
    """A family of edits of a script."""

    name: str
    sentence: str
    edits: Lister


# Tried until none of them has an edit that keeps the failure: what these take away needs no finer edit. An operand is
# tried ahead of a new value: a function that is left with its parameter and one call is this call.
COARSE_PASSES: tuple[SourcePass, ...] = (
    SourcePass(
        "blocks",
        "`for`, `if`, `while`, `with`, `try` and `match`, their body being put in their place",
        edits.unwrapped,
    ),
    SourcePass(
        "functions",
        "a function that is called once or only returns a value, or a generator, its body being put where it is called",
        edits.without_functions,
    ),
    SourcePass(
        "classes",
        "a class without a body to its base, an object to its functions and values, or to an object that it makes, "
        "`net.compile()` to `net = torch.compile(net)`",
        edits.without_classes,
    ),
    SourcePass("parameters", "a parameter that is not read, or has one value in all calls", edits.without_parameters),
    SourcePass("targets", "`a = f(x)` to `f(x)`", edits.without_targets),
    SourcePass(
        "aliases", "a variable that is used once, or names a name, its value being put in its place", edits.inlined
    ),
    SourcePass("imports", "an import of a name from a module that is imported itself", edits.qualified),
    SourcePass("operands", "an expression to one of its operands", edits.hoisted),
)

FINE_PASSES: tuple[SourcePass, ...] = (
    SourcePass("elements", "arguments, decorators, bases, elements, defaults, annotations, branches", edits.deleted),
    SourcePass("ones", "an argument or an assigned value to 1", edits.ones),
    SourcePass("globals", "an object that a function makes to functions, and globals of that one", edits.with_globals),
)

NUMBERS = ("numbers", "numbers to 1, or the smallest that fails")

# Tried last, and once: these change no statement.
LAST_PASSES: tuple[SourcePass, ...] = (
    SourcePass("names", "long names to short ones", edits.short_names),
    SourcePass("comments", "comments", edits.without_comments),
)

MODULES = ("modules", "an import of a module next to the script, its definitions being put in its place")

STATEMENTS = ("statements", "statements that the failure does not need, at all depths")

# Name and description of every pass, for the user.
TABLE: tuple[tuple[str, str], ...] = (
    STATEMENTS,
    MODULES,
    *((each.name, each.sentence) for each in (*COARSE_PASSES, *FINE_PASSES)),
    NUMBERS,
    *((each.name, each.sentence) for each in LAST_PASSES),
)
