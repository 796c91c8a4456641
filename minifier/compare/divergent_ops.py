"""Find the ops that diverge from eager when each is compiled alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from minifier.case.graph import Graph, subset
from minifier.compare.comparison import compare
from minifier.compare.runs import Build
from minifier.failure import Difference, Tolerance

Compile = Callable[[torch.fx.GraphModule, Sequence[Any]], Callable[..., Any]]


def divergent_ops(
    graph: Graph,
    order: Iterable[str],
    make_inputs: Callable[[Graph], list[Any]],
    build: Build,
    compile: Compile,
    seconds: float,
    measure: Tolerance | None = None,
) -> list[tuple[str, Difference]]:
    """Return the ops of `order` whose compiled result differs from eager's, each with its first difference.

    `make_inputs` makes fresh inputs for a graph of a single op: the op's inputs when the whole graph ran eagerly.
    The search ends after `seconds` and returns the ops found so far. An op that cannot be compiled alone, or whose
    compiled result raises, tells nothing about values and is skipped.
    """
    deadline = time.monotonic() + seconds
    divergent = []
    for name in order:
        if time.monotonic() >= deadline:
            break
        alone = subset(graph, [name])

        def inputs(alone: Graph = alone) -> list[Any]:
            return make_inputs(alone)

        try:
            compiled = compile(build(alone), inputs())
        except Exception:  # noqa: BLE001, S112 - whatever a backend raises: it cannot compile this op alone
            continue
        names = [node.name for node in alone.placeholders]
        comparison = compare(compiled, alone, inputs, build, measure, backward=False, names=names)
        if comparison.differences:
            divergent.append((name, comparison.differences[0]))
    return divergent
