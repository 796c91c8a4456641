"""Faults that end the compilation, the call or the whole process. Most take `stage` and `level`."""

import os
import signal
import time

from torch._dynamo import register_backend

from minifier_backends.errors import KernelError, LoweringError
from minifier_backends.planting import Occasion, fault
from minifier_backends.settings import Stage

MIB = 1024 * 1024
CHUNK_MIB = 16


@register_backend(tags=("debug",))
@fault(takes=("op", "stage", "level"))
def faulty_raise(occasion: Occasion) -> None:
    """Raises LoweringError while compiling, or KernelError at run time."""
    if occasion.settings.stage is Stage.RUN:
        raise KernelError(f"kernel of {occasion.settings.op} failed: invalid launch configuration")
    raise LoweringError(f"no lowering for {occasion.settings.op}")


@register_backend(tags=("debug",))
@fault(takes=("op",))
def faulty_unsupported(occasion: Occasion) -> None:
    """Raises LoweringError while compiling the op, and quotes its node, its stack trace and the whole graph."""
    node = occasion.nodes[0]
    raise LoweringError(
        f"{occasion.settings.op} is not supported by this compiler\nFailing at node: {node.format_node()}\n"
        f"Written at: {node.stack_trace}\nIn the graph:\n{node.graph}"
    )


@register_backend(tags=("debug",))
@fault(takes=("op", "stage", "level"))
def faulty_segfault(occasion: Occasion) -> None:
    """Dies by SIGSEGV, as from a wild pointer in the compiler's native code."""
    os.kill(os.getpid(), signal.SIGSEGV)


@register_backend(tags=("debug",))
@fault(takes=("op", "stage", "level"))
def faulty_abort(occasion: Occasion) -> None:
    """Dies by SIGABRT, as from a failed assertion in the compiler's native code."""
    os.abort()


@register_backend(tags=("debug",))
@fault(takes=("op", "stage", "level", "code"))
def faulty_exit(occasion: Occasion) -> None:
    """Ends the process with an exit code at once: no exception, no clean-up, nothing printed."""
    os._exit(occasion.settings.code)


@register_backend(tags=("debug",))
@fault(takes=("op", "stage", "level", "seconds"))
def faulty_hang(occasion: Occasion) -> None:
    """Never comes back; with `seconds`, comes back after that time and has done nothing wrong."""
    end = time.monotonic() + occasion.settings.seconds if occasion.settings.seconds else float("inf")
    while time.monotonic() < end:
        time.sleep(0.05)


@register_backend(tags=("debug",))
@fault(takes=("op", "stage", "level", "limit_mib"))
def faulty_memory(occasion: Occasion) -> None:
    """Takes memory in steps of 16 MiB and raises MemoryError at `limit_mib`, or earlier if refused more.

    Every page is written to, so that the process really grows; all is given back before the error.
    """
    limit = occasion.settings.limit_mib
    arena: list[bytearray] = []
    try:
        while len(arena) * CHUNK_MIB < limit:
            arena.append(bytearray(b"\x01") * (CHUNK_MIB * MIB))
    finally:
        arena.clear()
    raise MemoryError(f"arena of {limit} MiB exhausted while scheduling {occasion.settings.op}")
