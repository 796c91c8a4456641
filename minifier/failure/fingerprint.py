"""The structured identity of a failure, and when two failures are the same."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from minifier.failure.kinds import Kind, Stage
from minifier.failure.normal import normalise, words

Link = dict[str, Any]

_WRAPPERS = {"torch._dynamo.exc.BackendCompilerFailed"}
# Parts of torch that are backends themselves; the rest of torch only passes an exception on.
_BACKENDS_OF_TORCH = ("torch._inductor", "torch._functorch", "torch._dynamo.backends", "torch.jit")
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
        return f"{what}{where} ({self.stage.value}): {self.message.splitlines()[0] if self.message else ''}"


@dataclass(frozen=True, slots=True)
class Failure:
    """One sighting: its fingerprint, and what a person wants to read. `hints` are groups of node names
    that the error points at, best first."""

    fingerprint: Fingerprint
    type: str
    message: str
    traceback: str = ""
    hints: tuple[tuple[str, ...], ...] = ()


def _owned(module: str) -> bool:
    top = module.partition(".")[0]
    if top == "torch":
        return module.startswith(_BACKENDS_OF_TORCH)
    return (bool(module) and top not in sys.stdlib_module_names and top != "minifier") or module == "__main__"


def _frames(links: Sequence[Link]) -> list[Frame]:
    """Frames of the innermost exception that has any, generated code left out, outermost first."""
    for link in reversed(links):
        frames = [Frame(m, f) for m, f, file, _ in link["frames"] if not file.startswith("<")]
        if frames:
            return frames
    return []


def _is_wrapper(link: Link) -> bool:
    return link["type"] in _WRAPPERS or not _WRAPPERS.isdisjoint(link["bases"])


def unwrapped(links: Sequence[Link]) -> list[Link]:
    """The chain without Dynamo's wrapper around a backend's exception, or inductor's, which is one of it."""
    inner = [link for link in links if not _is_wrapper(link)]
    return inner or list(links)


def was_wrapped(links: Sequence[Link]) -> bool:
    """Whether Dynamo said that a backend raised this while compiling."""
    return any(_is_wrapper(link) for link in links)


def of_exception(stage: Stage, links: Sequence[Link], nodes: Iterable[str] = ()) -> Fingerprint:
    """The fingerprint of an exception described by `observed.describe`; `nodes` are the graph's names."""
    chain = unwrapped(links)
    frames = _frames(chain)
    message = normalise(chain[0]["message"])
    known = {re.sub(r"_\d+$", "", name) for name in nodes}
    return Fingerprint(
        stage=stage,
        kind=Kind.OUT_OF_MEMORY if chain[0]["type"] == "MemoryError" else Kind.EXCEPTION,
        types=tuple(link["type"] for link in chain),
        raising=frames[-1] if frames else None,
        site=next((frame for frame in reversed(frames) if _owned(frame.module)), None),
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
    chain = unwrapped(links)
    return Failure(
        fingerprint=of_exception(stage, links, nodes),
        type=chain[0]["type"],
        message=chain[0]["message"],
        traceback=traceback,
        hints=hints,
    )


def _same_message(sought: Fingerprint, seen: Fingerprint) -> bool:
    if sought.message == seen.message:
        return True
    mine, theirs = words(sought.message), words(seen.message)
    free = {*sought.names, *seen.names}
    return len(mine) == len(theirs) and all(
        a == b or ((a in free or b in free) and _IDENTIFIER.fullmatch(a) and _IDENTIFIER.fullmatch(b))
        for a, b in zip(mine, theirs, strict=True)
    )


def same(sought: Fingerprint, seen: Fingerprint, match: str | None = None) -> bool:
    """Are these two sightings of one failure? `match`, a regular expression, replaces the message's part."""
    if (sought.stage, sought.kind) != (seen.stage, seen.kind):
        return False
    if match is not None:
        return re.search(match, seen.message) is not None
    return (
        sought.types == seen.types
        and sought.raising == seen.raising
        and sought.site == seen.site
        and _same_message(sought, seen)
    )
