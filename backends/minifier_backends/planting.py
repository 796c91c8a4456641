"""How a fault becomes a backend: it is planted in the graph, and everything else runs eagerly.

A fault is a function. `@fault(...)` makes a backend of one that strikes (raises, kills the process,
hangs), `@distortion(...)` of one that changes a tensor, `@rewriting(...)` of one that edits the graph. The
backend keeps the function's name, module and docstring, so it is found where it was written.
"""

import dataclasses
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from functorch.compile import make_boxed_func  # type: ignore[import-untyped]
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch.utils._pytree import tree_map_only

from minifier_backends.graphs import descendants, fresh_copy, graph_modules, insert_after, op_names, ops_named
from minifier_backends.settings import Level, Settings, Stage, read_options

Compiled = Callable[..., Any]
Backend = Callable[..., Compiled]
Plant = Callable[[fx.GraphModule, Sequence[Any], Settings], Compiled]

# Seeds set by the script must not make a flaky fault steady.
DICE = random.SystemRandom()


@dataclasses.dataclass(frozen=True, slots=True)
class Occasion:
    """One moment at which a fault may strike."""

    settings: Settings
    call: int
    """Which call of the compiled graph this is, from 1; 0 while compiling."""
    chance: float
    """A number drawn from [0, 1) once per compilation and once per call."""
    present: frozenset[str]
    """The names of all ops in the graph."""
    nodes: tuple[fx.Node, ...] = ()
    """The ops found, while compiling."""


Strike = Callable[[Occasion], None]
Place = Callable[[fx.GraphModule, Sequence[Any], Settings], list[fx.Node]]
Distort = Callable[[torch.Tensor, Settings], torch.Tensor]
Rewrite = Callable[[fx.Node], None]


def at_op(gm: fx.GraphModule, example_inputs: Sequence[Any], settings: Settings) -> list[fx.Node]:
    """The usual place of a fault: every op of the name in the settings."""
    return ops_named(gm, settings.op)


def fault(
    *, takes: tuple[str, ...], place: Place = at_op, defaults: Settings | None = None
) -> Callable[[Strike], Backend]:
    """Makes a backend of a function that strikes.

    While compiling, it is called once if `place` finds anything in the graph. With `stage="run"` it is
    called whenever the compiled function has computed one of the ops found.
    """

    def decorate(strike: Strike) -> Backend:
        def plant(gm: fx.GraphModule, example_inputs: Sequence[Any], settings: Settings) -> Compiled:
            present = op_names(gm)
            if settings.stage is Stage.COMPILE:
                if nodes := place(gm, example_inputs, settings):
                    strike(Occasion(settings, 0, DICE.random(), present, tuple(nodes)))
                return gm.forward

            edited = fresh_copy(gm)
            occasion = Occasion(settings, 0, 0.0, present)

            def kernel(value: Any) -> Any:
                strike(occasion)
                return value

            def run(*args: Any) -> Any:
                nonlocal occasion
                occasion = Occasion(settings, occasion.call + 1, DICE.random(), present)
                return edited.forward(*args)

            for node in place(edited, example_inputs, settings):
                insert_after(node, kernel)
            _recompile(edited)
            return run

        return _backend(strike, plant, takes, defaults or Settings())

    return decorate


def distortion(
    *, takes: tuple[str, ...], outputs: bool = False, defaults: Settings | None = None
) -> Callable[[Distort], Backend]:
    """Makes a backend of a function that changes a tensor: the op's result, wherever it is used.

    With `outputs=True` the graph itself stays right, and each of its outputs that is computed from the op
    is changed, as by a compiler that mistakes the type or layout of what it returns.
    """

    def decorate(distort: Distort) -> Backend:
        def plant(gm: fx.GraphModule, example_inputs: Sequence[Any], settings: Settings) -> Compiled:
            def kernel(value: Any) -> Any:
                return tree_map_only(torch.Tensor, lambda tensor: distort(tensor, settings), value)

            edited = fresh_copy(gm)
            nodes = at_op(edited, example_inputs, settings)
            if outputs:
                reached = set().union(*(descendants(node) for node in nodes))
                (returned,) = edited.graph.find_nodes(op="output")
                for node in [node for node in returned.all_input_nodes if node in reached]:
                    with edited.graph.inserting_before(returned):
                        returned.replace_input_with(node, edited.graph.call_function(kernel, (node,)))
            else:
                for node in nodes:
                    insert_after(node, kernel)
            _recompile(edited)
            return edited.forward

        return _backend(distort, plant, takes, defaults or Settings())

    return decorate


def rewriting(*, takes: tuple[str, ...], defaults: Settings | None = None) -> Callable[[Rewrite], Backend]:
    """Makes a backend of a function that edits the graph around an op; it is called with each such op."""

    def decorate(rewrite: Rewrite) -> Backend:
        def plant(gm: fx.GraphModule, example_inputs: Sequence[Any], settings: Settings) -> Compiled:
            edited = fresh_copy(gm)
            for node in at_op(edited, example_inputs, settings):
                rewrite(node)
            _recompile(edited)
            return edited.forward

        return _backend(rewrite, plant, takes, defaults or Settings())

    return decorate


def _recompile(gm: fx.GraphModule) -> None:
    for body in graph_modules(gm):
        body.graph.lint()
        body.recompile()


def _backend(function: Callable[..., Any], plant: Plant, takes: tuple[str, ...], defaults: Settings) -> Backend:
    """The backend that plants a fault in the graph its level asks for, under the name of `function`."""
    name = function.__name__

    def backend(
        gm: fx.GraphModule, example_inputs: Sequence[Any], *, options: Mapping[str, object] | None = None
    ) -> Compiled:
        settings = read_options(name, options, takes, defaults)
        if settings.level is Level.DYNAMO:
            return plant(gm, example_inputs, settings)

        def faulty(graph: fx.GraphModule, inputs: Sequence[Any]) -> Compiled:
            return make_boxed_func(plant(graph, inputs, settings))  # type: ignore[no-any-return]

        def plain(graph: fx.GraphModule, inputs: Sequence[Any]) -> Compiled:
            return make_boxed_func(graph.forward)  # type: ignore[no-any-return]

        forward, backward = (faulty, plain) if settings.level is Level.FORWARD else (plain, faulty)
        return aot_autograd(fw_compiler=forward, bw_compiler=backward)(gm, example_inputs)

    backend.__name__ = name
    backend.__qualname__ = function.__qualname__
    backend.__module__ = function.__module__
    options = (f"{option}={_shown(getattr(defaults, option))}" for option in takes)
    backend.__doc__ = f"{function.__doc__ or ''}\n\nOptions and their defaults: {', '.join(options)}."
    return backend


def _shown(value: object) -> str:
    return repr(value.value if isinstance(value, (Stage, Level)) else value)
