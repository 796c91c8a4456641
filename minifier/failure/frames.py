"""Whose the frames of an exception are: the backend's, its callers', or generated code's."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

Link = dict[str, Any]
"""An exception of a chain, as `observed.describe` returns it."""

# Packages of torch that are backends; the rest of torch only propagates exceptions.
_BACKENDS_OF_TORCH = ("torch._inductor", "torch._functorch", "torch._dynamo.backends", "torch.jit")
_CALLERS = ("minifier.", "torch._dynamo.output_graph", "torch._dynamo.eval_frame")


@dataclass(frozen=True, slots=True)
class Frame:
    """A function on the stack of an exception, without the line number, which varies."""

    module: str
    function: str


def is_owned(module: str) -> bool:
    """Tell whether a frame of this module is the backend's.

    Frames of torch, Python and this tool are not; nor the script's, which differ from its repro's."""
    top = module.partition(".")[0]
    if top == "torch":
        return module.startswith(_BACKENDS_OF_TORCH)
    return bool(module) and top not in sys.stdlib_module_names and top not in ("minifier", "__main__")


def frames_of(links: Sequence[Link]) -> list[Frame]:
    """Return the frames of the innermost exception that has any, outermost first.

    Generated code and the callers of a backend, Dynamo and this tool, are left out."""
    for link in reversed(links):
        if frames := _of_link(link["frames"]):
            return frames
    return []


def _of_link(frames: Sequence[Sequence[Any]]) -> list[Frame]:
    return [
        Frame(_unhashed(module), _unhashed(function))
        for module, function, file, _ in frames
        if not _is_generated(file) and not module.startswith(_CALLERS)
    ]


def raising_frame(links: Sequence[Link]) -> Frame | None:
    """Return the innermost frame; None if only generated code lies within the backend's callers.

    A fresh interpreter shows the script's frames as well: those that lead to the callers."""
    for link in reversed(links):
        if _of_link(link["frames"]):
            within = _of_link(_within_callers(link["frames"]))
            return within[-1] if within else None
    return None


def _within_callers(frames: Sequence[Sequence[Any]]) -> Sequence[Sequence[Any]]:
    begin = 0
    for place, (module, *_) in enumerate(frames):
        if module.startswith(_CALLERS):
            begin = place + 1
        elif is_owned(module):
            break
    return frames[begin:]


def _is_generated(file: str) -> bool:
    """Tell whether code has no file. A notebook's cell counts as a file."""
    return file.startswith("<") and not file.startswith("<ipython-input")


def outermost(own: Sequence[Frame]) -> Frame | None:
    """Return the backend's outermost frame, except for AOTAutograd's.

    AOTAutograd wraps compilers and compiled code in functions that differ between autograd and a probe."""
    return next((frame for frame in own if not frame.module.startswith("torch._functorch")), None)


def _unhashed(name: str) -> str:
    """Return the name without a trailing hash or number, as of generated modules; Inductor's hashes are in base 32."""
    return re.sub(r"(?:_?(?=[0-9a-z]*\d)[0-9a-f]{8,}|\.[a-z2-7]{40,}|_\d+)$", "", name)
