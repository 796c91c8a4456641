"""All passes, in the order in which they are tried."""

from __future__ import annotations

from minifier.passes import arguments, body_operands, dtypes, items, layout, operands, sizes, state
from minifier.passes.edits import Pass

SIMPLIFICATIONS: tuple[Pass, ...] = (
    *operands.PASSES,
    *body_operands.PASSES,
    *items.PASSES,
    *arguments.PASSES,
    *layout.PASSES,
    *dtypes.PASSES,
    *sizes.PASSES,
    *state.PASSES,
)

# Its rows depend on what the values are, which a child has to look at.
DATA = ("data", "values of inputs to seeded random, integers to zeros; to bounded random, to a short list")

# Name and sentence of every pass, for people.
TABLE: tuple[tuple[str, str], ...] = (
    ("ops", "ops that the failure does not need, cut values coming in as inputs and live-outs going out"),
    ("bodies", "ops in the bodies of higher-order ops, an earlier value of the same shape being read in their place"),
    ("parts", "a composite op to the parts that the failure needs, if they are fewer and no more ops are left"),
    DATA,
    *((p.name, p.sentence) for p in SIMPLIFICATIONS),
)

# Passes after which the graph computes something else: what is left could be a program that Dynamo treats otherwise.
OF_VALUES: tuple[str, ...] = tuple(
    each.name
    for module in (operands, body_operands, arguments, layout, dtypes, sizes)
    for each in module.PASSES
    if not each.asked
)
