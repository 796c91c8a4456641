"""The command line."""

from __future__ import annotations

from minifier.cli.entry import main

__all__ = ["main"]
