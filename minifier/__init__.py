"""Reduces a failing torch.compile backend call to a short, verified, standalone repro."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minifier.flow.embed.function import check, minify
    from minifier.flow.embed.session import capture
    from minifier.flow.embed.wrap import wrap
    from minifier.flow.run import run_program as run

__version__ = "0.1.0"
__all__ = ["__version__", "capture", "check", "minify", "run", "wrap"]

_PLACES = {
    "capture": ("minifier.flow.embed.session", "capture"),
    "check": ("minifier.flow.embed.function", "check"),
    "minify": ("minifier.flow.embed.function", "minify"),
    "run": ("minifier.flow.run", "run_program"),
    "wrap": ("minifier.flow.embed.wrap", "wrap"),
}


def __getattr__(name: str) -> Any:
    """Import a public function at its first use: the import loads torch, and the command checks its options first.

    Raises UsageError for a torch that the tool cannot work with.
    """
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from minifier.flow.prepare import import_with_torch

    module, function = _PLACES[name]
    return getattr(import_with_torch(module), function)
