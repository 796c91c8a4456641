"""The kinds of devices that torch knows, other than the CPU."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from typing import Any, NoReturn

import torch
from torch._C import _get_privateuse1_backend_name

from minifier.interfaces.declared import stands_on
from minifier.torch_private.configuration import variable_set


def device_kinds() -> tuple[str, ...]:
    """Return the types of the devices with drivers that this tool supports, with the name of a third-party device."""
    return tuple(dict.fromkeys(("cuda", "xpu", _get_privateuse1_backend_name())))


_QUESTIONS = ("is_available", "device_count")
_START = "_lazy_init"  # starts a device's driver, as the questions do
_BY_NVML = "PYTORCH_NVML_BASED_CUDA_CHECK"
_NVML_COUNT = stands_on(
    "torch.cuda:_device_count_nvml",
    loses="speed: modules that ask for CUDA when they are imported are imported in each probe",
)


def _refuse(*_arguments: Any, **_more: Any) -> NoReturn:
    raise ImportError("it asks for a device")


@contextlib.contextmanager
def asking_nvml() -> Iterator[bool]:
    """Let NVML tell Python code in the block which CUDA devices there are, if it can; give whether it can.

    CUDA's driver, which tells it otherwise, is then not started: forks cannot use CUDA after that.
    """
    count = _NVML_COUNT.find()
    if count is None or count() < 0:
        yield False
        return
    with variable_set(_BY_NVML, "1"):
        yield True


@contextlib.contextmanager
def imports_refused_devices() -> Iterator[None]:
    """Raise ImportError in the block where Python code asks for a device that this torch was built for.

    Forks cannot use the device after an answer, unless it is NVML's. `torch.utils.cpp_extension` asks when it is
    imported.
    """
    kinds = [getattr(torch, kind) for kind in device_kinds() if hasattr(torch, kind)]
    built = [module for module in kinds if getattr(module, "_is_compiled", lambda: True)()]
    with asking_nvml() as by_nvml:
        unknown = [module for module in built if not (by_nvml and module is torch.cuda)]
        refused = [(module, _START) for module in built]
        refused += itertools.product((torch.accelerator, *unknown) if unknown else (), _QUESTIONS)
        before = [(module, name, getattr(module, name)) for module, name in refused if hasattr(module, name)]
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
