"""Modes of the user's thread that Dynamo turns off while it compiles."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator

import torch
import torch._dynamo.convert_frame as convert_frame
from torch.overrides import _len_torch_function_stack, _pop_mode, _push_mode
from torch.utils import _device

_OUTSIDE = threading.local()


def note_inference_mode() -> None:
    """From now on `inference_mode_outside` knows whether a compilation began under inference mode."""
    original = convert_frame.maybe_disable_inference_mode

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
def as_while_compiling() -> Iterator[None]:
    """The modes in which Dynamo calls a backend: inference mode is no_grad, and no function modes."""
    with contextlib.ExitStack() as stack:
        if torch.is_inference_mode_enabled():
            stack.enter_context(torch.inference_mode(False))
            stack.enter_context(torch.no_grad())
        modes = [_pop_mode() for _ in range(_len_torch_function_stack())]
        try:
            yield
        finally:
            for mode in reversed(modes):
                _push_mode(mode)
