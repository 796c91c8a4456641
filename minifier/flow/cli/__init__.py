"""The command line."""

from __future__ import annotations

from minifier.flow.cli.entry import main

__all__ = ["main"]
