"""Torch's state in a process: configuration modules, modes, devices, the handler of fatal signals."""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import itertools
import mmap
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from types import ModuleType
from typing import Any, NoReturn

import torch
from torch._C import _get_privateuse1_backend_name, _len_torch_function_stack
from torch._dynamo.variables.torch_function import torch_function_mode_stack_state_mgr
from torch.overrides import _get_current_function_mode_stack, _pop_mode, _push_mode
from torch.utils._config_module import _UNSET_SENTINEL, ConfigModule
from torch.utils._device import DeviceContext

from minifier.torch_side.torch_private import declared


def _modules() -> list[tuple[str, ConfigModule]]:
    """Return each loaded configuration module once, with an importable name: its own, if it has that."""
    loaded = [(name, module) for name, module in sys.modules.items() if isinstance(module, ConfigModule)]
    loaded.sort(key=lambda pair: (pair[0] != pair[1].__name__, pair[0]), reverse=True)
    return sorted({id(module): (name, module) for name, module in loaded}.values())


def config_values() -> dict[tuple[str, str], Any]:
    """Return all values of all loaded configuration modules by (module, key), without aliases."""
    values = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated values warn when they are read
        for name, module in _modules():
            for key, entry in module._config.items():
                if entry.alias is not None:
                    continue
                with contextlib.suppress(AttributeError):  # deleted, for example by mock.patch
                    value = getattr(module, key)
                    values[name, key] = value.copy() if isinstance(value, (dict, list, set)) else value
    return values


def is_default_config(module: str, key: str) -> bool:
    """Whether a configuration value is its module's default."""
    return bool(sys.modules[module]._is_default(key))


def set_config(module: str, key: str, value: Any) -> None:
    """Set a configuration value, even if an environment variable forces another value.

    Raises ImportError or AttributeError if this torch lacks the module or the value.
    """
    config = importlib.import_module(module)
    if isinstance(config, ConfigModule) and key in config._config:
        config._config[key].env_value_force = _UNSET_SENTINEL
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated values warn when they are set
        setattr(config, key, value)


def has_config(module: str, key: str) -> bool:
    """Import the module, and return whether this configuration value exists."""
    config = importlib.import_module(module)
    return key in config._config if isinstance(config, ConfigModule) else hasattr(config, key)


@contextlib.contextmanager
def variable_set(name: str, value: str) -> Iterator[None]:
    """Give an environment variable, which torch reads when it needs it, this value in the block."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


# Untyped in torch.
_pop: Callable[[], Any] = _pop_mode
_push: Callable[[Any], None] = _push_mode
_stack: Callable[[], list[Any]] = _get_current_function_mode_stack

_OUTSIDE = threading.local()


def note_inference_mode() -> Callable[[], None]:
    """Record whether compilations begin under inference mode, for `inference_mode_outside`.

    Return a function that undoes this.
    """

    def noting(_: None, disable: Callable[[], AbstractContextManager[None]]) -> AbstractContextManager[None]:
        disabling = disable()
        if isinstance(disabling, AbstractContextManager):
            return _noting_inference_mode(disabling)
        declared.DISABLE_INFERENCE_MODE.tell_loss(f"{declared.DISABLE_INFERENCE_MODE.place} returns no context")
        return disabling

    return declared.DISABLE_INFERENCE_MODE.replace(lambda _: None, noting)


@contextlib.contextmanager
def _noting_inference_mode(disabling: AbstractContextManager[None]) -> Iterator[None]:
    before = inference_mode_outside()
    _OUTSIDE.inference = torch.is_inference_mode_enabled()
    try:
        with disabling:
            yield
    finally:
        _OUTSIDE.inference = before


def inference_mode_outside() -> bool:
    """Whether the code that Dynamo compiles in this thread will run under inference mode."""
    return getattr(_OUTSIDE, "inference", False)


def _function_modes() -> list[Any]:
    """Return the torch function modes of the user's code, including modes that Dynamo has disabled for now."""
    return [*torch_function_mode_stack_state_mgr.stack, *_stack()]


def default_device() -> str | None:
    """Return the device of torch.set_default_device or `with torch.device(...)`, or None."""
    devices = [mode.device for mode in _function_modes() if isinstance(mode, DeviceContext)]
    return str(devices[-1]) if devices else None


def other_function_modes() -> list[str]:
    """Return the types of the active torch function modes, without the default device."""
    kinds = [type(mode) for mode in _function_modes() if not isinstance(mode, DeviceContext)]
    return [f"{kind.__module__}.{kind.__qualname__}" for kind in kinds]


@contextlib.contextmanager
def _without_function_modes() -> Iterator[None]:
    modes = [_pop() for _ in range(_len_torch_function_stack())]
    try:
        yield
    finally:
        for mode in reversed(modes):
            _push(mode)


@contextlib.contextmanager
def as_while_compiling() -> Iterator[None]:
    """Enter the modes in which Dynamo calls a backend: no_grad for inference mode, and no function modes."""
    grad = torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
    with torch.inference_mode(False), torch.set_grad_enabled(grad), _without_function_modes():
        yield


@contextlib.contextmanager
def without_modes() -> Iterator[None]:
    """Enter the modes in which a script makes its inputs: grad mode, no inference mode, no default device."""
    with torch.inference_mode(False), torch.enable_grad(), _without_function_modes():
        yield


def device_kinds() -> tuple[str, ...]:
    """Return the types of the devices with drivers that this tool supports, with the name of a third-party device."""
    return tuple(dict.fromkeys(("cuda", "xpu", _get_privateuse1_backend_name())))


def built_devices() -> list[ModuleType]:
    """Return the modules of the devices with drivers that this torch was built for."""
    kinds = [getattr(torch, kind) for kind in device_kinds() if hasattr(torch, kind)]
    return [module for module in kinds if getattr(module, "_is_compiled", lambda: True)()]


def _refuse(*_arguments: Any, **_more: Any) -> NoReturn:
    raise ImportError("it asks for a device")


@contextlib.contextmanager
def asking_nvml() -> Iterator[bool]:
    """Let NVML tell Python code in the block which CUDA devices there are, if it can; give whether it can.

    CUDA's driver, which tells it otherwise, is then not started: forks cannot use CUDA after that.
    """
    count = declared.NVML_COUNT.find()
    if count is None or count() < 0:
        yield False
        return
    with variable_set("PYTORCH_NVML_BASED_CUDA_CHECK", "1"):
        yield True


@contextlib.contextmanager
def imports_refused_devices() -> Iterator[None]:
    """Raise ImportError in the block where Python code asks for a device that this torch was built for.

    Forks cannot use the device after an answer, unless it is NVML's. `torch.utils.cpp_extension` asks when it is
    imported.
    """
    built = built_devices()
    with asking_nvml() as by_nvml:
        unknown = [module for module in built if not (by_nvml and module is torch.cuda)]
        refused = [(module, "_lazy_init") for module in built]  # which starts a device's driver, as the questions do
        asked = (torch.accelerator, *unknown) if unknown else ()
        refused += itertools.product(asked, ("is_available", "device_count"))
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


_STACK_BYTES = 2**20
_handlers_stack: mmap.mmap | None = None  # in use until the process ends


class SignalStack(ctypes.Structure):
    """`stack_t` of <signal.h>."""

    _fields_ = (("ss_sp", ctypes.c_void_p), ("ss_flags", ctypes.c_int), ("ss_size", ctypes.c_size_t))


def print_native_stacks() -> None:
    """Make a fatal signal print the native stack of each thread to stderr.

    Call it in the main thread, after a first `faulthandler.enable`: torch's handler runs on that module's stack for
    signals, about 16 KiB on the heap, of which it uses more. It allocates memory, and hangs where the allocator has
    aborted: another process has to notice that (`Child.look_for_death`).
    """
    global _handlers_stack
    set_printing = declared.PRINT_STACKS.find()
    if set_printing is None:
        return
    if _handlers_stack is None:
        _handlers_stack = mmap.mmap(-1, _STACK_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        place = ctypes.addressof(ctypes.c_char.from_buffer(_handlers_stack))
        ctypes.CDLL(None).sigaltstack(ctypes.byref(SignalStack(place, 0, _STACK_BYTES)), None)
    set_printing(True)
