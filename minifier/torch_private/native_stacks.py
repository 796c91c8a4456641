"""The native stack of a process that dies of a signal, which torch's own handler prints."""

from __future__ import annotations

import torch


def print_native_stacks() -> None:
    """Make a fatal signal print the native stack of each thread to stderr; earlier handlers run afterwards."""
    torch._C._set_print_stack_traces_on_fatal_signal(True)
