"""The runs of eager that a comparison makes, each on inputs and a module of its own."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable
from typing import Any

import torch

from minifier.case.graph import Graph
from minifier.case.ops import is_in_place
from minifier.compare.lazy_wide_run import WidenedAsTaken, can_wait
from minifier.compare.results import Results, observe
from minifier.compare.wide_reference import (
    DOUBLE,
    SINGLE,
    Width,
    default_dtype,
    is_number,
    move_inputs,
    narrow_dtypes,
    widen_inputs,
    widen_module,
    widened,
)
from minifier.torch_private import Draw, giving_draws, noting_draws, unsettled

_ROOM = 2**30  # bytes: what a comparison may take beside 1.5 times what the script does

Build = Callable[[Graph], torch.fx.GraphModule]

# Ops that may draw random numbers, by name; one too many costs a little time, one too few some sharpness.
_MAY_DRAW = re.compile(
    r"rand|drop|bernoulli|multinomial|normal|uniform|exponential|poisson|cauchy|geometric|rrelu"
    r"|attention|rnn|lstm|gru|fractional|gumbel|higher_order|philox"
)


class EagerRuns:
    """Runs a graph eagerly in different ways. `count` is how often it was run; after `first`, `drew` says
    whether it uses the random number generator."""

    def __init__(self, graph: Graph, make_inputs: Callable[[], list[Any]], build: Build, backward: bool) -> None:
        self._graph, self._make_inputs, self._build, self._backward = graph, make_inputs, build, backward
        self._draws: list[Draw] = []
        self.tangents: list[torch.Tensor | None] | None = None
        self.drew = False
        self.count = 0

    def first(self) -> Results:
        """The run that the compiled result is compared with; the others get its tangents."""
        results = None
        if self._graph.modules or any(_MAY_DRAW.search(node.target) for node in self._graph.nodes):
            results = self._run(within=functools.partial(noting_draws, self._draws))
            if results.error is not None:  # it may have been the noting that failed
                self._draws.clear()
                results = None
        results = results or self._run()
        self.tangents, self.drew = results.tangents, results.drew
        return results

    def variation(self, steps: float) -> Results | None:
        """A run with inputs moved by `steps` eps, in which every op rounds otherwise and what torch leaves open
        (unwritten memory, the order of equal elements) comes out another way; None if eager does not survive it."""
        results = self._run(steps=steps, within=functools.partial(unsettled, steps, self.count))
        if results.error is not None:
            results = self._run(steps=steps)
        return results if results.error is None else None

    def redrawn(self, seed: int) -> Results | None:
        """A run with other random numbers, and nothing else changed; None if eager does not survive it."""
        results = self._run(seed)
        return results if results.error is None else None

    def reference(self) -> Results | None:
        """A run in double precision, or of half types in single precision; None if neither is possible, or would
        take too much memory."""
        if self.drew and not self._draws:
            return None  # it would draw other numbers than eager did
        for width in (DOUBLE, SINGLE):
            if width is SINGLE and (self.drew or not narrow_dtypes(self._graph, self._make_inputs(), SINGLE)):
                continue
            if not self._is_too_large(width):
                results = self._wide(width)
                if results.error is None:
                    return results
        return None

    def _run(self, seed: int = 0, steps: float = 0.0, within: Any = contextlib.nullcontext) -> Results:
        self.count += 1
        inputs = self._make_inputs()
        if steps:
            move_inputs(inputs, steps, seed=self.count)
        module = self._build(self._graph)
        return observe(
            module.forward, inputs, backward=self._backward, seed=seed, tangents=self.tangents, within=within
        )

    def _wide(self, width: Width) -> Results:
        self.count += 1
        module = self._build(widened(self._graph, width))
        widen_module(module, width)
        within = functools.partial(giving_draws, self._draws) if self.drew else contextlib.nullcontext
        inputs = self._make_inputs()
        waiting = [i for i, value in enumerate(inputs) if self._may_wait and can_wait(value, width)]
        call = WidenedAsTaken(module, width, waiting).run if waiting else module.forward
        with default_dtype(width.default):
            inputs = widen_inputs(inputs, width, waiting)
            return observe(call, inputs, backward=self._backward, tangents=self.tangents, within=within)

    @property
    def _may_wait(self) -> bool:
        return not self._backward and not any(map(is_in_place, self._graph.nodes))

    def _is_too_large(self, width: Width) -> bool:
        """Whether a backward pass in this width, with its inputs and gradients, takes more than a comparison may."""
        if not self._backward:
            return False
        numbers = [value for value in self._make_inputs() if isinstance(value, torch.Tensor) and is_number(value)]
        taken = sum(v.numel() * width.of(v.dtype).itemsize * (1 + v.requires_grad) for v in numbers)
        return taken > _ROOM
