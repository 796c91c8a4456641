"""Which ops part from eager when each is compiled alone, on the values that it had in the whole graph."""

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
    """The ops, of those named in `order`, whose compiled result is not eager's, with the first difference of each.

    `make_inputs` gives fresh inputs of a graph of one op: what the op was given when the whole graph ran eagerly.
    Ends after `seconds`, with what it has found by then. An op that cannot be compiled alone, or whose
    compiled result raises, says nothing about values and is passed over.
    """
    end = time.monotonic() + seconds
    found = []
    for name in order:
        if time.monotonic() >= end:
            break
        alone = subset(graph, [name])

        def inputs(alone: Graph = alone) -> list[Any]:
            return make_inputs(alone)

        try:
            compiled = compile(build(alone), inputs())
        except Exception:  # noqa: BLE001, S112 - whatever a backend raises: it cannot compile this op alone
            continue
        names = [node.name for node in alone.placeholders]
        compared = compare(compiled, alone, inputs, build, measure, backward=False, names=names)
        if compared.differences:
            found.append((name, compared.differences[0]))
    return found
