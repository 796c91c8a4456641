"""Faults beside the values: a lost update, a copy for a view, a wrong gradient, a fallback, a mode."""

import logging

import torch
from torch import fx
from torch._dynamo import register_backend

from minifier_backends.errors import KernelError, LoweringError
from minifier_backends.planting import Occasion, distortion, fault, rewriting
from minifier_backends.settings import Level, Settings, Stage

log = logging.getLogger("minifier_backends")


@register_backend(tags=("debug",))
@rewriting(takes=("op",), defaults=Settings(op="add_"))
def faulty_mutation(node: fx.Node) -> None:
    """Loses what the op writes into an input of the graph: every result is right, and the input is as before."""
    written = node.args[0] if node.args else None
    if not isinstance(written, fx.Node) or written.op != "placeholder":
        return
    with node.graph.inserting_before(node):
        copied = node.graph.call_function(torch.clone, (written,))
    order = {each: place for place, each in enumerate(node.graph.nodes)}
    written.replace_all_uses_with(node, delete_user_cb=lambda user: order[user] > order[node])
    node.replace_input_with(written, copied)


@register_backend(tags=("debug",))
@distortion(takes=("op",), outputs=True, defaults=Settings(op="view"))
def faulty_alias(value: torch.Tensor, settings: Settings) -> torch.Tensor:
    """Returns a copy for each output that is computed from the op: one that should be a view is none."""
    return value.clone()


@register_backend(tags=("debug",))
@distortion(takes=("op", "factor"), defaults=Settings(op="tanh_backward", level=Level.BACKWARD))
def faulty_gradient(value: torch.Tensor, settings: Settings) -> torch.Tensor:
    """Computes an op of the backward graph times `factor`: the result is right, the gradients are not."""
    return value * settings.factor


@register_backend(tags=("debug",))
@fault(takes=("op", "level"))
def faulty_fallback(occasion: Occasion) -> None:
    """Cannot compile the graph, says so in the log `minifier_backends`, and runs it eagerly."""
    try:
        raise LoweringError(f"no lowering for {occasion.settings.op}")
    except LoweringError as error:
        log.error("compilation failed, falling back to eager: %s", error)


@register_backend(tags=("debug",))
@fault(takes=("op",), defaults=Settings(stage=Stage.RUN))
def faulty_inference(occasion: Occasion) -> None:
    """Raises KernelError when the op runs under torch.inference_mode(); under no_grad it works."""
    if torch.is_inference_mode_enabled():
        raise KernelError(f"kernel of {occasion.settings.op} failed: inference tensors do not track versions")
