"""Faults that raise nothing: the compiled function returns, and what it returns is wrong."""

import torch
from torch._dynamo import register_backend

from minifier_backends.planting import distortion
from minifier_backends.settings import Settings


@register_backend(tags=("debug",))
@distortion(takes=("op", "level", "factor"))
def faulty_wrong(value: torch.Tensor, settings: Settings) -> torch.Tensor:
    """Computes the op wrongly: times `factor`; an integer result is one too large, a bool is negated."""
    if value.dtype is torch.bool:
        return ~value
    if value.is_floating_point() or value.is_complex():
        return value * settings.factor
    return value + 1


@register_backend(tags=("debug",))
@distortion(takes=("op", "level"))
def faulty_nan(value: torch.Tensor, settings: Settings) -> torch.Tensor:
    """Computes NaN in the first element of the op's result. An integer result stays as it is."""
    if not value.is_floating_point():
        return value
    first = torch.arange(value.numel(), device=value.device).view(value.shape) == 0
    return value.masked_fill(first, float("nan"))


@register_backend(tags=("debug",))
@distortion(takes=("op",), outputs=True)
def faulty_dtype(value: torch.Tensor, settings: Settings) -> torch.Tensor:
    """Returns each output that is computed from the op in another dtype: float64, or float32 for float64."""
    return value.to(torch.float32 if value.dtype is torch.float64 else torch.float64)


@register_backend(tags=("debug",))
@distortion(takes=("op",), outputs=True)
def faulty_stride(value: torch.Tensor, settings: Settings) -> torch.Tensor:
    """Returns each output that is computed from the op with every stride doubled, the values right.

    A tensor without dimensions has no stride, and stays as it is.
    """
    return torch.stack((value, value), dim=-1).select(-1, 0)
