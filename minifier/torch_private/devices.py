"""The kinds of devices that torch knows, other than the CPU."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, NoReturn

import torch
from torch._C import _get_privateuse1_backend_name


def device_kinds() -> tuple[str, ...]:
    """Return the types of the devices with drivers that this tool supports, with the name of a third-party device."""
    return tuple(dict.fromkeys(("cuda", "xpu", _get_privateuse1_backend_name())))


_QUESTIONS = ("is_available", "device_count", "_lazy_init")  # that start a device's driver


def _refuse(*_arguments: Any, **_more: Any) -> NoReturn:
    raise ImportError("it asks for a device")


@contextlib.contextmanager
def imports_refused_devices() -> Iterator[None]:
    """Raise ImportError in the block where Python code asks for a device that this torch was built for.

    Forks cannot use CUDA after an answer. `torch.utils.cpp_extension` asks when it is imported.
    """
    kinds = [getattr(torch, kind) for kind in device_kinds() if hasattr(torch, kind)]
    built = [module for module in kinds if getattr(module, "_is_compiled", lambda: True)()]
    modules = [torch.accelerator, *built] if built else []
    before = [(m, name, getattr(m, name)) for m in modules for name in _QUESTIONS if hasattr(m, name)]
    for module, name, _ in before:
        setattr(module, name, _refuse)
    try:
        yield
    finally:
        for module, name, question in before:
            setattr(module, name, question)


def is_capturing() -> bool:
    """Whether work on the current CUDA stream is recorded for a CUDA graph: copying a tensor would end the capture."""
    in_use = bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]
    return in_use and bool(torch.cuda.is_current_stream_capturing())
