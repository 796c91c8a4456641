"""Modes of the user's thread that Dynamo turns off while it compiles."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import overrides
from torch._dynamo import convert_frame
from torch.utils import _device

# Untyped in torch, or not exported for type checkers.
_depth: Callable[[], int] = overrides._len_torch_function_stack  # type: ignore[attr-defined]
_pop: Callable[[], Any] = overrides._pop_mode
_push: Callable[[Any], None] = overrides._push_mode

_OUTSIDE = threading.local()


def note_inference_mode() -> None:
    """From now on `inference_mode_outside` knows whether a compilation began under inference mode."""
    original = convert_frame.maybe_disable_inference_mode  # type: ignore[attr-defined]

    @contextlib.contextmanager
    def noting() -> Iterator[None]:
        before = inference_mode_outside()
        _OUTSIDE.inference = torch.is_inference_mode_enabled()
        try:
            with original():
                yield
        finally:
            _OUTSIDE.inference = before

    convert_frame.maybe_disable_inference_mode = noting  # type: ignore[attr-defined]


def inference_mode_outside() -> bool:
    """Whether the code that Dynamo compiles in this thread will run under inference mode."""
    return getattr(_OUTSIDE, "inference", False)


def default_device() -> str | None:
    """What torch.set_default_device or `with torch.device(...)` is in force, also while Dynamo has taken
    it off; None if there is none."""
    device = _device.CURRENT_DEVICE
    return None if device is None else str(device)


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
    """The modes in which Dynamo calls a backend: no_grad for inference mode, and no function modes."""
    grad = torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
    with torch.inference_mode(False), torch.set_grad_enabled(grad), _without_function_modes():
        yield


@contextlib.contextmanager
def without_modes() -> Iterator[None]:
    """No inference mode, no default device, grad mode on: where a script makes its inputs."""
    with torch.inference_mode(False), torch.enable_grad(), _without_function_modes():
        yield
