"""A class of the user's program whose `forward` runs without being compiled."""

from __future__ import annotations

import builtins
import sys
from typing import Any

import torch

_TORCH_NN = "torch.nn.modules."


def statement_of(class_path: str) -> str:
    """Return the statement that excludes a class, `module:qualname`, from compilation.

    >>> statement_of("torch.nn.modules.activation:ReLU")
    'torch.nn.ReLU.forward = torch.compiler.disable(torch.nn.ReLU.forward)'
    """
    module, _, name = class_path.partition(":")
    if module.startswith(_TORCH_NN):
        module = "torch.nn"
    forward = f"{name}.forward" if module == "__main__" else f"{module}.{name}.forward"
    return f"{forward} = torch.compiler.disable({forward})"


def exclude(class_path: str) -> None:
    """Exclude a class, `module:qualname`, from compilation in this process: now, and whenever it is defined."""
    module, _, name = class_path.partition(":")
    build = builtins.__build_class__

    def exclude_class(made: Any) -> None:
        if isinstance(made, type) and issubclass(made, torch.nn.Module):
            made.forward = torch.compiler.disable(made.forward)  # type: ignore[no-untyped-call]

    def build_class(*args: Any, **kwargs: Any) -> Any:
        made = build(*args, **kwargs)
        if (getattr(made, "__module__", ""), getattr(made, "__qualname__", "")) == (module, name):
            exclude_class(made)
        return made

    builtins.__build_class__ = build_class
    made: Any = sys.modules.get(module) if module != "__main__" else None
    for part in name.split("."):
        made = getattr(made, part, None)
    exclude_class(made)
