"""Failures of native code: the diagnostic that a process wrote, and the native stack at its death."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from minifier.failure.normalise import normalise

_MAX_FRAMES = 3
# The first line of a diagnostic: of MLIR, LLVM, gcc; of libc, libstdc++, glibc's allocator; of glog, Rust, sanitizers.
_DIAGNOSTIC = re.compile(
    r"""^(?:
    (?:\S+:\d+(?::\d+)?|<unknown>:\d+|loc\(.*\)):\s(?:fatal\s)?error:\s.*
    |LLVM\sERROR:\s.*
    |.*\bAssertion\s[`'"].*['"]\sfailed\.?.*
    |terminate\scalled\s.*(?:\n\s+what\(\):.*)?
    |(?:free|malloc|realloc|munmap_chunk)\(\):\s.*
    |double\sfree\sor\scorruption.*|corrupted\s(?:size|double-linked)\s.*|\*\*\*\sstack\ssmashing\sdetected\s.*
    |F\d{4,8}\s[\d:.]+\s.*Check\sfailed:.*
    |thread\s'.*'\spanicked\sat\s.*
    |==\d+==\s?ERROR:\s.*
    )$""",
    re.VERBOSE | re.MULTILINE,
)
# A frame of torch's handler of fatal signals.
_FRAME = re.compile(r"^\s*frame #\d+: (?P<symbol>.+) \+ 0x[0-9a-f]+ \(0x[0-9a-f]+ in (?P<library>[^)\n]*)\)$")
_STACK = re.compile(
    r"^SIG[A-Z]+\(\d+\), PID: \d+, Thread \d+: *\n(?P<frames>(?:\s*(?:frame #|<omitting).*\n?)*)", re.MULTILINE
)
_PLUMBING = ("c10::FatalSignalHandler", "gsignal", "raise", "abort", "__GI_", "__assert_fail", "pthread_kill")
_LIBRARIES_OF_LIBC = ("libc.so", "libpthread.so", "libc-", "libstdc++.so", "ld-linux")


def diagnostic(output: str) -> str:
    """Return the first diagnostic of native code in the output, unchanged, or ""."""
    found = _DIAGNOSTIC.search(output)
    return found.group() if found else ""


def native_frames(output: str) -> tuple[str, ...]:
    """Return the innermost native functions at a fatal signal, innermost first, without libc's and Python's own.

    A function without a name is known by its library. Empty if torch's handler wrote no stack."""
    stack = _STACK.search(output)
    frames: list[str] = []
    for line in stack["frames"].splitlines() if stack else ():
        found = _FRAME.match(line)
        if found is None:  # <omitting python frames>
            break
        library = PurePosixPath(found["library"]).name
        if library.startswith(_LIBRARIES_OF_LIBC) or found["symbol"].startswith(_PLUMBING):
            continue
        symbol = found["symbol"].partition("(")[0]
        frames.append(library if symbol == "<unknown function>" else symbol)
    return tuple(frames[:_MAX_FRAMES])


def native_identity(output: str) -> str:
    """Return the normalised diagnostic, else the innermost native function; "" if the output has neither."""
    return normalise(diagnostic(output)) or next(iter(native_frames(output)), "")
