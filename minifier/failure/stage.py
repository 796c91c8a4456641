"""The stage of an exception that ended a script, found from its frames."""

from __future__ import annotations

from collections.abc import Sequence

from minifier.failure.fingerprint import was_wrapped
from minifier.failure.frames import Link
from minifier.failure.kinds import Stage
from minifier.interfaces.names import (
    AOT_AUTOGRAD,
    COMPILES_BACKWARD,
    COMPILES_FRAME,
    COMPILES_GRAPH,
    OF_DYNAMO,
    RUNS_BACKWARD,
    RUNS_COMPILED,
    RUNS_ENGINE,
)


def stage_shown(links: Sequence[Link]) -> Stage:
    """Return the stage of an exception that ended a script: compilation, run, or backward pass."""
    each = [[(f[0], f[1]) for f in link["frames"] if not f[0].startswith("minifier.")] for link in links]
    frames = {frame for of_link in each for frame in of_link}
    if any(_compiles_backward(of_link) for of_link in each):
        return Stage.BACKWARD_COMPILE
    if any(_runs_backward(of_link) for of_link in each):
        return Stage.BACKWARD_RUN
    if any(OF_DYNAMO in link["bases"] for link in links):
        return Stage.COMPILE
    if was_wrapped(links) or COMPILES_FRAME in frames or COMPILES_GRAPH in frames:
        return Stage.COMPILE
    return Stage.RUN


def _runs_backward(frames: Sequence[tuple[str, str]]) -> bool:
    """Whether a backward pass ran, and none that AOTAutograd traces while a graph is compiled."""
    begins = next((place for place, frame in enumerate(frames) if frame in (RUNS_BACKWARD, RUNS_ENGINE)), None)
    return begins is not None and not {COMPILES_FRAME, COMPILES_GRAPH}.intersection(frames[:begins])


def _compiles_backward(frames: Sequence[tuple[str, str]]) -> bool:
    """Whether AOTAutograd compiled a backward graph: in a function of its own since torch 2.12.

    Before, the function that runs what was compiled called the compiler, too.
    """
    if COMPILES_BACKWARD in frames:
        return True
    after = frames[frames.index(RUNS_BACKWARD) + 1 :] if RUNS_BACKWARD in frames else ()
    return bool(after) and after[0] != RUNS_COMPILED and not after[0][0].startswith(AOT_AUTOGRAD)
