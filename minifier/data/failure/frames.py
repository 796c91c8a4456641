"""Whose the frames of an exception are: the backend's, its callers', or generated code's."""

from __future__ import annotations

import re
import sys
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from minifier.data.fields import Line
from minifier.data.torch_names import BACKENDS_OF_TORCH, CALLERS_OF_BACKENDS, FUNCTORCH

Link = dict[str, Any]
"""An exception of a chain, as `observed.describe` returns it."""

TESTING = ("torch.testing", "numpy.testing", "unittest")  # modules whose functions check
STDLIB_FOLDERS = tuple(filter(None, (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"))))
_TRACED, _ADVICE = "from user code:", "\nSet TORCHDYNAMO_VERBOSE"
_TRACED_FRAME = re.compile(r'^ *File "([^"\n]+)", line \d+, in (.+)\n +(?!File ")(\S.*)$', re.MULTILINE)
# The first lines of the explanation and the debug context of an `Unsupported`.
_GRAPH_BREAK = re.compile(r"^ *Explanation: (.*)(?:\n.*)*?\n *Developer debug context: (.*)$", re.MULTILINE)
_IN_BRACKETS = re.compile(r"""\[[^\[\]]*\]|\([^()]*\)|\{[^{}]*\}|<[^<>]*>|'[^']*'|"[^"]*\"""")
_TRUTH_OR_NUMBER = re.compile(r"\b(?:True|False|None|\d+)\b")
_CALLERS = ("minifier.", *CALLERS_OF_BACKENDS)


@dataclass(frozen=True, slots=True)
class Frame:
    """A function on the stack of an exception, without the line number, which varies."""

    module: Line
    function: Line


def is_owned(module: str) -> bool:
    """Tell whether a frame of this module is the backend's.

    Frames of torch, Python and this tool are not; nor the script's, which differ from its repro's."""
    top = module.partition(".")[0]
    if top == "torch":
        return module.startswith(BACKENDS_OF_TORCH)  # the rest of torch only propagates exceptions
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
        if (not file.startswith("<") or file.startswith("<ipython-input"))  # a notebook's cell is no generated code
        and not module.startswith(_CALLERS)
    ]


def raising_frame(links: Sequence[Link]) -> Frame | None:
    """Return the innermost frame; None if only generated code lies within the backend's callers.

    The script's own frames, which lead to the callers in a fresh interpreter, are left out."""
    for link in reversed(links):
        if _of_link(link["frames"]):
            begin = 0  # of what is within the callers
            for place, (module, *_) in enumerate(link["frames"]):
                if module.startswith(_CALLERS):
                    begin = place + 1
                elif is_owned(module):
                    break
            within = _of_link(link["frames"][begin:])
            return within[-1] if within else None
    return None


def outermost(own: Sequence[Frame]) -> Frame | None:
    """Return the backend's outermost frame, except for AOTAutograd's.

    AOTAutograd wraps compilers and compiled code in functions that differ between autograd and a probe."""
    return next((frame for frame in own if not frame.module.startswith(FUNCTORCH)), None)


def traced_line(links: Sequence[Link]) -> str:
    """Return the innermost line that Dynamo traced, if it is a package's or Python's: file, function and source.

    Of the script's own lines, which a reduction edits, none is returned."""
    for file, function, source in _traced_frames(links)[-1:]:
        path = installed_path(file)
        return f"{path}, {function}: {source}" if path else ""
    return ""


def own_traced_line(links: Sequence[Link]) -> str:
    """Return the innermost line that Dynamo traced of the script, or of a module that is no installed package's."""
    return next((source for file, _, source in reversed(_traced_frames(links)) if not installed_path(file)), "")


def _traced_frames(links: Sequence[Link]) -> list[tuple[str, str, str]]:
    """Return the lines that Dynamo's message lists, outermost first: file, function and source."""
    for link in links:
        _, _, listed = link["message"].partition(_TRACED)
        if frames := _TRACED_FRAME.findall(listed.partition(_ADVICE)[0]):
            return frames
    return []


def graph_break(links: Sequence[Link]) -> str:
    """Return what Dynamo does not support, from its explanation and its debug context; "" for another exception.

    Arguments, types in brackets, texts in quotes and truth values are left out: an edit of the script changes them."""
    for link in links:
        if (match := _GRAPH_BREAK.search(link["message"])) is not None:
            text = " | ".join(match.groups())
            while (shorter := _IN_BRACKETS.sub("", text)) != text:
                text = shorter
            return " ".join(_TRUTH_OR_NUMBER.sub("", text).split())
    return ""


def is_torchs(file: str) -> bool:
    """Tell whether a file of code is torch's."""
    return "/torch/" in file


def is_beside_torch(file: str) -> bool:
    """Tell whether code is the script's, or another package's than torch: not torch's or Python's, nor generated."""
    is_pythons = file.startswith(("<", *STDLIB_FOLDERS)) and "-packages/" not in file  # whose folder may be within
    return not is_pythons and not is_torchs(file)


def installed_path(file: str) -> str:
    """Return the path of a package's file within its folder of packages, of Python's own within its folder, else ""."""
    package = re.search(r"/(?:site|dist)-packages/(.+)", file)
    if package is not None:
        return package[1]
    return next((file[len(folder) + 1 :] for folder in STDLIB_FOLDERS if file.startswith(f"{folder}/")), "")


def _unhashed(name: str) -> str:
    """Return the name without a trailing hash or number, as of generated modules; Inductor's hashes are in base 32."""
    return re.sub(r"(?:_?(?=[0-9a-z]*\d)[0-9a-f]{8,}|\.[a-z2-7]{40,}|_\d+)$", "", name)
