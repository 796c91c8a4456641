"""Find the ops that diverge from eager when each is compiled alone."""

from __future__ import annotations

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
    measure: Tolerance | None = None,
) -> list[tuple[str, Difference]]:
    """Return the ops of `order` whose compiled result differs from eager's, each with its first difference.

    `make_inputs` makes fresh inputs for a graph of a single op: the op's inputs when the whole graph ran eagerly. An op
    that cannot be compiled alone, or whose compiled result raises, tells nothing about values and is skipped. Each name
    is taken from `order` only when the op before it is judged: a caller with little time ends the order.
    """
    divergent = []
    for name in order:
        alone = subset(graph, [name])

        def inputs(alone: Graph = alone) -> list[Any]:
            return make_inputs(alone)

        try:
            compiled = compile(build(alone), inputs())
        except Exception:  # noqa: BLE001, S112 - whatever a backend raises: it cannot compile this op alone
            continue
        comparison = compare(compiled, alone, inputs, build, measure)
        if comparison.differences:
            divergent.append((name, comparison.differences[0]))
    return divergent
