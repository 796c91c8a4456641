"""Modes of the user's thread that Dynamo disables during compilation."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch._C import _len_torch_function_stack
from torch._dynamo.variables.torch_function import torch_function_mode_stack_state_mgr
from torch.overrides import _get_current_function_mode_stack, _pop_mode, _push_mode
from torch.utils._device import DeviceContext

from minifier.interfaces.declared import EVERYTHING, INFERENCE, stands_on

_DISABLE_INFERENCE_MODE = stands_on("torch._dynamo.convert_frame:maybe_disable_inference_mode", loses=INFERENCE)
stands_on("torch._dynamo.variables.torch_function:TorchFunctionModeStackStateManager.stack", loses=EVERYTHING)

# Untyped in torch.
_depth: Callable[[], int] = _len_torch_function_stack
_pop: Callable[[], Any] = _pop_mode
_push: Callable[[Any], None] = _push_mode
_stack: Callable[[], list[Any]] = _get_current_function_mode_stack

_OUTSIDE = threading.local()


def note_inference_mode() -> Callable[[], None]:
    """Record whether compilations begin under inference mode, for `inference_mode_outside`.

    Return a function that ends this.
    """

    def noting(_: None, disable: Callable[[], AbstractContextManager[None]]) -> AbstractContextManager[None]:
        disabling = disable()
        if isinstance(disabling, AbstractContextManager):
            return _noting_inference_mode(disabling)
        _DISABLE_INFERENCE_MODE.tell_loss(f"{_DISABLE_INFERENCE_MODE.place} returns no context")
        return disabling

    return _DISABLE_INFERENCE_MODE.replace(lambda _: None, noting)


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
    modes = [_pop() for _ in range(_depth())]
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
