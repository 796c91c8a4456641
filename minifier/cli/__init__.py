"""The command line."""

from __future__ import annotations

from minifier.cli.commands import main

__all__ = ["main"]
