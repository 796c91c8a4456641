"""All passes, in the order in which they are tried."""

from __future__ import annotations

from minifier.passes import items, layout, sizes, state
from minifier.passes.edits import Pass

SIMPLIFICATIONS: tuple[Pass, ...] = (*items.PASSES, *sizes.PASSES, *state.PASSES, *layout.PASSES)

# Name and sentence of every pass, for people.
TABLE: tuple[tuple[str, str], ...] = (
    ("ops", "ops that the failure does not need, cut values coming in as inputs and live-outs going out"),
    ("bodies", "ops in the bodies of higher-order ops, an earlier value of the same shape being read in their place"),
    *((p.name, p.sentence) for p in SIMPLIFICATIONS),
    ("data", "values of inputs to seeded random, to bounded random, to a short list"),
)
