"""The structured identity of a failure, and when two failures are the same."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minifier.failure.difference import Difference
from minifier.failure.kinds import Kind, Stage
from minifier.failure.normalise import normalise, words

Link = dict[str, Any]

_WRAPPERS = {"torch._dynamo.exc.BackendCompilerFailed"}
# Parts of torch that are backends themselves; the rest of torch only passes an exception on.
_BACKENDS_OF_TORCH = ("torch._inductor", "torch._functorch", "torch._dynamo.backends", "torch.jit")
_CALLERS = ("minifier.", "torch._dynamo.output_graph")
# Frames of this tool, which called the backend, with their lines of source.
_TOOL = re.escape(str(Path(__file__).parents[1]) + os.sep)
_OWN_FRAMES = re.compile(rf'  File "{_TOOL}[^"\n]*", line \d+, in \w+\n(?:    .*\n)*')
# How torch's allocators, and C++ below it, say that there is no more memory.
_NO_MEMORY = re.compile(
    r"DefaultCPUAllocator: |can't allocate memory|not enough memory: you tried to allocate|std::bad_alloc"
)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class Frame:
    """A function that was running when the exception was raised; no line number, which moves."""

    module: str
    function: str


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """What two sightings of one failure have in common.

    `types` is the chain of exception types, outermost first, without Dynamo's wrapper. `raising` is the
    innermost frame that is not generated code, `site` the innermost one of the backend itself. `message`
    is normalised; `names` are the words of it that were names of graph nodes, and may differ.
    """

    stage: Stage
    kind: Kind
    types: tuple[str, ...] = ()
    raising: Frame | None = None
    site: Frame | None = None
    message: str = ""
    names: tuple[str, ...] = ()

    def sentence(self) -> str:
        """One line for a person."""
        where = f" in {self.site.module}.{self.site.function}" if self.site else ""
        what = self.types[0] if self.types else self.kind.value
        lines = self.message.splitlines()
        cause = f" (because of {self.types[-1]}: {lines[-1]})" if len(self.types) > 1 and lines else ""
        return f"{what}{where} ({self.stage.value}): {lines[0] if lines else ''}{cause}"


@dataclass(frozen=True, slots=True)
class Failure:
    """One sighting: its fingerprint, and what a person wants to read. `hints` are groups of node names
    that the error points at, best first; `differences` are what a comparison with eager found."""

    fingerprint: Fingerprint
    type: str
    message: str
    traceback: str = ""
    hints: tuple[tuple[str, ...], ...] = ()
    differences: tuple[Difference, ...] = ()

    @property
    def sentence(self) -> str:
        """One line for a person, with what this sighting adds to the fingerprint's."""
        return self.fingerprint.sentence() + (f": {self.message}" if self.differences else "")

    @property
    def line(self) -> str:
        """The failure in one line, as Python ends a traceback."""
        first = self.message.strip().splitlines()[:1]
        return f"{self.type}: {first[0]}" if first and first[0] else self.type


def _owned(module: str) -> bool:
    """Whether a frame of this module is the backend's: not torch's plumbing, the standard library, this
    tool, or the script itself, whose frames differ between a script and its repro."""
    top = module.partition(".")[0]
    if top == "torch":
        return module.startswith(_BACKENDS_OF_TORCH)
    return bool(module) and top not in sys.stdlib_module_names and top not in ("minifier", "__main__")


def _frames(links: Sequence[Link]) -> list[Frame]:
    """Frames of the innermost exception that has any, outermost first; without generated code, and
    without the two places that call a backend, Dynamo's and this tool's."""
    for link in reversed(links):
        frames = [
            Frame(_unhashed(module), _unhashed(function))
            for module, function, file, _ in link["frames"]
            if not _is_generated(file) and not module.startswith(_CALLERS)
        ]
        if frames:
            return frames
    return []


def _is_generated(file: str) -> bool:
    """Whether code is from no file; the cells of a notebook are as good as one."""
    return file.startswith("<") and not file.startswith("<ipython-input")


def _outermost(own: Sequence[Frame]) -> Frame | None:
    """The backend's outermost frame. AOTAutograd stands around its compilers and what they compiled, in other functions
    of its own when autograd calls the backward than when a probe does."""
    return next((frame for frame in own if not frame.module.startswith("torch._functorch")), None)


def _unhashed(name: str) -> str:
    """A name without a hash or a number at its end: generated modules and functions have them. (Inductor's are in
    base 32.)"""
    return re.sub(r"(?:_?(?=[0-9a-z]*\d)[0-9a-f]{8,}|\.[a-z2-7]{40,}|_\d+)$", "", name)


def _is_wrapper(link: Link) -> bool:
    return link["type"] in _WRAPPERS or not _WRAPPERS.isdisjoint(link["bases"])


def without_wrappers(links: Sequence[Link]) -> list[Link]:
    """The chain without Dynamo's wrapper around a backend's exception, or inductor's, which is one of it."""
    inner = [link for link in links if not _is_wrapper(link)]
    return inner or list(links)


def was_wrapped(links: Sequence[Link]) -> bool:
    """Whether Dynamo said that a backend raised this while compiling."""
    return any(_is_wrapper(link) for link in links)


def _exit_status(message: str) -> str:
    """What `sys.exit(message)` makes of a process."""
    if message == "None":
        return "exit status 0"
    return f"exit status {int(message) & 0xFF if message.lstrip('-').isdigit() else 1}"


def _is_out_of_memory(link: Link) -> bool:
    kinds = (link["type"], *link["bases"])
    if "MemoryError" in kinds or any(k.startswith("torch.") and k.endswith(".OutOfMemoryError") for k in kinds):
        return True
    return "RuntimeError" in kinds and _NO_MEMORY.search(link["message"]) is not None


def of_exception(stage: Stage, links: Sequence[Link], nodes: Iterable[str] = ()) -> Fingerprint:
    """The fingerprint of an exception described by `observed.describe`; `nodes` are the graph's names."""
    chain = without_wrappers(links)
    types = [link["type"] for link in chain]
    if types[-1] == "SystemExit":  # seen from outside there is only the status
        return Fingerprint(stage, Kind.EXIT, message=_exit_status(chain[-1]["message"]))
    frames = _frames(chain)
    own = [frame for frame in frames if _owned(frame.module)]
    # Equal links in a row are one: a compiler that wraps an error at each level wraps it once.
    said = [(link["type"], normalise(link["message"])) for link in chain]
    distinct = [link for i, link in enumerate(said) if i == 0 or link != said[i - 1]]
    message = "\n".join(text for _, text in distinct)
    known = {re.sub(r"_\d+$", "", name) for name in nodes}
    if types[-1] == "RecursionError":  # where the stack ends is chance; where it began is not
        return Fingerprint(stage, Kind.EXCEPTION, ("RecursionError",), None, _outermost(own))
    if _is_out_of_memory(chain[0]) or _is_out_of_memory(chain[-1]):
        # Which allocation is refused is chance, and so are its type and text; who asked for so much is not.
        own = [frame for frame in _frames(chain[:1]) if _owned(frame.module)]
        return Fingerprint(stage, Kind.OUT_OF_MEMORY, site=_outermost(own), message="no more memory")
    return Fingerprint(
        stage=stage,
        kind=Kind.EXCEPTION,
        types=tuple(kind for kind, _ in distinct),
        raising=frames[-1] if frames else None,
        site=own[-1] if own else None,
        message=message,
        names=tuple(sorted(known.intersection(words(message)))),
    )


def failure_of(
    stage: Stage,
    links: Sequence[Link],
    traceback: str,
    nodes: Iterable[str] = (),
    hints: tuple[tuple[str, ...], ...] = (),
) -> Failure:
    """A sighting of an exception, Dynamo's wrapper taken off."""
    chain = without_wrappers(links)
    return Failure(
        fingerprint=of_exception(stage, links, nodes),
        type=chain[0]["type"],
        message=chain[0]["message"],
        traceback=_OWN_FRAMES.sub("", traceback),
        hints=hints,
    )


def _same_message(sought: Fingerprint, seen: Fingerprint, renamed: bool) -> bool:
    """Word by word; a node's name may stand for another's. Where the graph was traced anew (`renamed`)
    its names are not known, so any identifier may stand for a node's name."""
    if sought.message == seen.message:
        return True
    mine, theirs = words(sought.message), words(seen.message)
    return len(mine) == len(theirs) and all(
        a == b or (a in sought.names and (b in seen.names or (renamed and _IDENTIFIER.fullmatch(b) is not None)))
        for a, b in zip(mine, theirs, strict=True)
    )


def same(sought: Fingerprint, seen: Fingerprint, *, renamed: bool = False) -> bool:
    """Are these two sightings of one failure? `renamed` if the second graph's node names are not known."""
    return (
        (sought.stage, sought.kind, sought.types) == (seen.stage, seen.kind, seen.types)
        and (sought.raising, sought.site) == (seen.raising, seen.site)
        and _same_message(sought, seen, renamed)
    )


def matches(sought: Fingerprint, seen: Failure, pattern: str) -> bool:
    """The user's own measure: the pattern is found in the message, stage and kind being the same."""
    found = seen.fingerprint
    texts = (seen.message, found.message)
    return (sought.stage, sought.kind) == (found.stage, found.kind) and any(re.search(pattern, t) for t in texts)
