"""Faults that need more than one op's presence: a partner, a neighbour, a size, a call, luck."""

from collections.abc import Sequence
from typing import Any

from torch import fx
from torch._dynamo import register_backend

from minifier_backends.errors import (
    DynamicShapeError,
    FusionError,
    LoweringError,
    PartitionError,
    TransientError,
    WorkspaceError,
)
from minifier_backends.graphs import is_symbolic, ops_named
from minifier_backends.planting import Occasion, at_op, fault
from minifier_backends.settings import Level, Settings, Stage


def with_partner(gm: fx.GraphModule, example_inputs: Sequence[Any], settings: Settings) -> list[fx.Node]:
    """The ops, if there is a `with_op` anywhere in the graph as well."""
    return at_op(gm, example_inputs, settings) if ops_named(gm, settings.with_op) else []


def beside_partner(gm: fx.GraphModule, example_inputs: Sequence[Any], settings: Settings) -> list[fx.Node]:
    """The ops that feed a `with_op` directly, or are fed by one."""
    partners = set(ops_named(gm, settings.with_op))
    ops = at_op(gm, example_inputs, settings)
    return [op for op in ops if partners.intersection((*op.all_input_nodes, *op.users))]


def with_symbolic_size(gm: fx.GraphModule, example_inputs: Sequence[Any], settings: Settings) -> list[fx.Node]:
    """The ops, if the graph was traced with a symbolic size."""
    return at_op(gm, example_inputs, settings) if any(map(is_symbolic, example_inputs)) else []


@register_backend(tags=("debug",))
@fault(takes=("op", "with_op", "stage", "level"), place=with_partner)
def faulty_pair(occasion: Occasion) -> None:
    """Raises PartitionError where both ops are in one graph, however far apart."""
    settings = occasion.settings
    raise PartitionError(f"cannot place {settings.with_op} and {settings.op} in one partition")


@register_backend(tags=("debug",))
@fault(takes=("op", "with_op", "stage", "level"), place=beside_partner)
def faulty_adjacent(occasion: Occasion) -> None:
    """Raises FusionError where one of the two ops takes the other's result, in either order."""
    settings = occasion.settings
    raise FusionError(f"cannot fuse {settings.op} with {settings.with_op}: no common tiling")


@register_backend(tags=("debug",))
@fault(takes=("op", "with_op", "stage", "level"), defaults=Settings(with_op="layer_norm"))
def faulty_two_errors(occasion: Occasion) -> None:
    """Raises one FusionError where both ops are in the graph, and another of nearly the same text where
    only the first is: two bugs, of which a careless reduction takes one for the other."""
    op, partner = occasion.settings.op, occasion.settings.with_op
    if partner in occasion.present:
        raise FusionError(f"fusion.cc:120: cannot fuse {op}: unsupported producer {partner}")
    raise FusionError(f"fusion.cc:188: cannot fuse {op}: missing producer")


@register_backend(tags=("debug",))
@fault(takes=("op", "stage", "level", "probability"))
def faulty_flaky(occasion: Occasion) -> None:
    """Raises TransientError with a `probability`, drawn anew for each compilation or call; no seed helps."""
    if occasion.chance < occasion.settings.probability:
        raise TransientError(f"compile server did not answer while lowering {occasion.settings.op}")


@register_backend(tags=("debug",))
@fault(takes=("op", "level", "call"), defaults=Settings(stage=Stage.RUN))
def faulty_on_call(occasion: Occasion) -> None:
    """Raises WorkspaceError at one `call` of a compiled graph, and at no other."""
    if occasion.call == occasion.settings.call:
        raise WorkspaceError(f"workspace of {occasion.settings.op} was already released")


@register_backend(tags=("debug",))
@fault(takes=("op", "stage"), place=with_symbolic_size)
def faulty_dynamic(occasion: Occasion) -> None:
    """Raises DynamicShapeError where the op is in a graph with a symbolic size."""
    raise DynamicShapeError(f"{occasion.settings.op} needs a size that is known when compiling")


@register_backend(tags=("debug",))
@fault(takes=("op", "stage"), defaults=Settings(op="tanh_backward", level=Level.BACKWARD))
def faulty_backward(occasion: Occasion) -> None:
    """Raises LoweringError for an op of the backward graph, which AOTAutograd has made of ATen ops."""
    raise LoweringError(f"no lowering for {occasion.settings.op} in a backward graph")
