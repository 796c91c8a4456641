"""The kinds of devices that torch knows, other than the CPU."""

from __future__ import annotations

import torch
from torch._C import _get_privateuse1_backend_name


def device_kinds() -> tuple[str, ...]:
    """Return the types of the devices with drivers that this tool supports, with the name of a third-party device."""
    return tuple(dict.fromkeys(("cuda", "xpu", _get_privateuse1_backend_name())))


def is_capturing() -> bool:
    """Whether work on the current CUDA stream is recorded for a CUDA graph: copying a tensor would end the capture."""
    in_use = bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]
    return in_use and bool(torch.cuda.is_current_stream_capturing())
