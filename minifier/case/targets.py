"""Targets that mean something to more than one part of this tool."""

from __future__ import annotations

HIGHER_ORDER = "torch.ops.higher_order."  # what the paths of higher-order ops begin with
AUTOGRAD_FUNCTION = f"{HIGHER_ORDER}autograd_function_apply"
COND = f"{HIGHER_ORDER}cond"
REGION = f"{HIGHER_ORDER}invoke_subgraph"
SET_GRAD = "torch._C._set_grad_enabled"
FLEX = f"{HIGHER_ORDER}flex_attention"
LAUNCH = f"{HIGHER_ORDER}triton_kernel_wrapper_mutation"  # of a Triton kernel
CHECKPOINT = f"{HIGHER_ORDER}tag_activation_checkpoint"


def is_higher_order(target: str) -> bool:
    """Whether an op takes graphs; launches of Triton kernels, which torch counts among them, do not."""
    return target.startswith(HIGHER_ORDER) and target != LAUNCH
