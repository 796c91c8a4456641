"""Reduces a failing torch.compile backend call to a short, verified, standalone repro."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minifier.embed.capture import capture
    from minifier.embed.wrap import wrap
    from minifier.workflow.run import minify

__version__ = "0.1.0"
__all__ = ["__version__", "capture", "minify", "wrap"]

_MODULES = {"capture": "minifier.embed.capture", "minify": "minifier.workflow.run", "wrap": "minifier.embed.wrap"}


def __getattr__(name: str) -> Any:
    """Import a public function at its first use: the import loads torch, and the command checks its options first."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)
