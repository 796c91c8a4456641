"""The native stack of a process that dies of a signal, which torch's own handler prints."""

from __future__ import annotations

import ctypes
import mmap

from minifier.interfaces.declared import STACKS, stands_on

_PRINT_STACKS = stands_on("torch._C:_set_print_stack_traces_on_fatal_signal", loses=STACKS)

_STACK_BYTES = 2**20
_handlers_stack: mmap.mmap | None = None  # in use until the process ends


class SignalStack(ctypes.Structure):
    """`stack_t` of <signal.h>."""

    _fields_ = (("ss_sp", ctypes.c_void_p), ("ss_flags", ctypes.c_int), ("ss_size", ctypes.c_size_t))


def print_native_stacks() -> None:
    """Make a fatal signal print the native stack of each thread to stderr; earlier handlers run afterwards.

    Call it in the main thread, after `faulthandler.enable`: torch's handler runs on that module's stack for signals,
    about 16 KiB on the heap, of which it uses more. The process then dies of a damaged heap, by SIGABRT, or never.
    """
    global _handlers_stack
    set_printing = _PRINT_STACKS.find()
    if set_printing is None:
        return
    if _handlers_stack is None:
        _handlers_stack = mmap.mmap(-1, _STACK_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        place = ctypes.addressof(ctypes.c_char.from_buffer(_handlers_stack))
        ctypes.CDLL(None).sigaltstack(ctypes.byref(SignalStack(place, 0, _STACK_BYTES)), None)
    set_printing(True)
