"""All passes, in the order in which they are tried."""

from __future__ import annotations

from minifier.reduction.passes import arguments, inputs, items, operands, sizes, state
from minifier.reduction.passes.edits import Pass

SIMPLIFICATIONS: tuple[Pass, ...] = (
    *operands.PASSES,
    *items.PASSES,
    *state.PASSES,  # ahead of the rows that a small Case mostly needs: what changes after them is asked for again
    *arguments.PASSES,
    *inputs.PASSES,
    *sizes.PASSES,
)

# The rows of this pass depend on the values, which only a child process reads.
DATA = ("data", "values of inputs to seeded random, integers to zeros; to bounded random, to a short list")

# This pass works on the repro, after one was found.
DEFINITIONS = ("definitions", "statements, functions, methods and entries of tables that the script's definitions have")

# Name and description of every pass, for the user.
TABLE: tuple[tuple[str, str], ...] = (
    ("ops", "ops that the failure does not need, cut values coming in as inputs and live-outs going out"),
    ("bodies", "ops in the bodies of higher-order ops, an earlier value of the same shape being read in their place"),
    DATA,
    *((p.name, p.sentence) for p in SIMPLIFICATIONS),
    DEFINITIONS,
)

# Passes that change the computed values: Dynamo might treat the simplified program in another way.
OF_VALUES: tuple[str, ...] = tuple(
    simplification.name
    for module in (operands, arguments, inputs, sizes)
    for simplification in module.PASSES
    if not simplification.asked
)
