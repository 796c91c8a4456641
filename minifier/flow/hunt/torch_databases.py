"""The databases of torch's own tests, which are no public interface."""

from __future__ import annotations

import importlib
from types import ModuleType

import torch

from minifier.data.torch_names import TESTS_OF_TORCH
from minifier.errors import UsageError


def imported(module: str) -> ModuleType:
    """Import a module of torch's own tests, which takes seconds. Raises UsageError if that is not possible.

    torch's tests forbid that flags like `torch.backends.cudnn.enabled` are set; here a backend may still set them.
    """
    forbid = torch.backends.disable_global_flags
    torch.backends.disable_global_flags = lambda: None
    try:
        return importlib.import_module(f"{TESTS_OF_TORCH}.{module}")
    except ImportError as error:
        raise UsageError(
            f"torch's own tests cannot be imported: {error}. `pip install expecttest` is what they need."
        ) from error
    finally:
        torch.backends.disable_global_flags = forbid
