"""Reduces a failing torch.compile backend call to a short, verified, standalone repro."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minifier.embed.capture import capture
    from minifier.embed.wrap import wrap

__version__ = "0.1.0"
__all__ = ["__version__", "capture", "wrap"]


def __getattr__(name: str) -> Any:
    """`wrap` and `capture`, which import torch: the command does without until its arguments have been looked at."""
    if name == "capture":
        from minifier.embed.capture import capture

        return capture
    if name == "wrap":
        from minifier.embed.wrap import wrap

        return wrap
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
