"""Backends that end the process, never come back, take all memory, or give up without an exception."""

import ctypes
import logging
import mmap
import os
import resource
import signal
import sys
import threading
import warnings

import torch
from torch._dynamo import register_backend

from oddlib.backends import called

KEPT = []
WAITS = threading.Event()  # a thread is about to wait
BYTES_OF_A_SMALL_MACHINE = 1100 * 2**20  # more are nearly all that it has
HOW = {"stage": "run", "how": "SIGSEGV", "call": 1}


def note_a_hang():
    """For the clock of a test, `clock.AfterHangs`: this call takes an hour from now on."""
    with open(os.path.join(os.path.dirname(sys.modules["__main__"].__file__), "hangs"), "a") as file:
        file.write("!")


def wait_for_a_limit(held):
    """Wait until whoever watches has seen what is held, where that is nearly all there is."""
    while held > BYTES_OF_A_SMALL_MACHINE and resource.getrlimit(resource.RLIMIT_DATA)[0] == resource.RLIM_INFINITY:
        pass


def end(how):
    if how == "exit well":
        os._exit(0)
    if how == "exit":
        os._exit(7)
    if how in ("sleep", "sleep in C", "spin"):
        note_a_hang()
    if how == "wait":
        WAITS.set()
        threading.Event().wait()
    if how == "sleep":
        while True:
            signal.pause()
    if how == "sleep in C":  # which a signal ends; the interpreter's lock is held
        ctypes.PyDLL(None).pause()
        raise RuntimeError("woken")
    if how == "spin":
        while True:
            pass
    if how == "reserve":  # and hardly use
        KEPT.append(mmap.mmap(-1, 2**40, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000))
        raise RuntimeError("the arena is too small")
    if how == "open":
        while True:
            KEPT.append(os.open(os.devnull, os.O_RDONLY))
    if how == "close":
        os.closerange(0, 21)
        raise RuntimeError("all files are closed")
    if how == "hoard":
        hoard = []
        while True:
            hoard.append(torch.ones(2**20))
            wait_for_a_limit(len(hoard) * 2**22)
    if how == "use up":  # what was reserved before
        arena = mmap.mmap(-1, 2**34, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)
        for page in range(0, 2**34, 4096):
            arena[page] = 1
    if how == "hoard text":
        text = []
        while True:
            text.append("x" * 2**20)
            wait_for_a_limit(len(text) * 2**20)
    if how == "hoard in C++":  # operator new: where it fails, nothing catches std::bad_alloc
        new = ctypes.CDLL("libstdc++.so.6")._Znwm
        new.argtypes, new.restype = (ctypes.c_size_t,), ctypes.c_void_p
        while True:
            ctypes.memset(new(2**22), 1, 2**22)
    if how == "thread":
        # A thread that went on would free its frames while the handler, in the main thread, reads them.
        thread = threading.Thread(target=lambda: (end("SIGSEGV"), signal.pause()))
        thread.start()
        thread.join()
    os.kill(os.getpid(), signal.Signals[how])


def planted(gm, options, strike):
    """The graph, where the fault strikes if there is a tanh in it, while compiling or at one of the calls."""
    told = {**HOW, **(options or {})}
    if "tanh" not in set(called(gm)):
        return gm.forward
    if told["stage"] == "compile":
        strike(told["how"])
        return gm.forward
    calls = 0

    def run(*args):
        nonlocal calls
        calls += 1
        if calls == told["call"]:
            for value in args:
                if told.get("empties") and isinstance(value, torch.Tensor):
                    value.detach().zero_()
            strike(told["how"])
        return gm.forward(*args)

    return run


@register_backend
def oddlib_ends(gm, example_inputs, *, options=None):
    return planted(gm, options, end)


def grumble(how):
    if how == "warning":
        warnings.warn("no lowering for tanh at 0x7fe0, falling back to eager", RuntimeWarning, stacklevel=2)
        return
    logger = logging.getLogger("oddlib.lowering")
    logger.propagate = False
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
        logger.setLevel(logging.INFO)
    logger.log(logging.getLevelName(how), "no lowering for tanh at 0x%x, falling back to eager", id(logger))


@register_backend
def oddlib_grumbles(gm, example_inputs, *, options=None):
    return planted(gm, options, grumble)
