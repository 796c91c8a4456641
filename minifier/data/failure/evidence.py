"""Failures from what was seen: a comparison, the end of a process, the frames of an exception."""

from __future__ import annotations

from collections.abc import Sequence

from minifier.data.failure.fingerprint import Failure, Fingerprint, was_wrapped
from minifier.data.failure.frames import Link
from minifier.data.failure.kinds import Aspect, Difference, Kind, Stage
from minifier.data.torch_names import (
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


def hang(stage: Stage, seconds: float, text: str = "") -> Failure:
    """Build the failure of a process that did not end. The seconds are no property of the failure."""
    return _failure(stage, Kind.TIMEOUT, "no end", f"no end after {seconds:.0f} s", text)


def no_memory(stage: Stage, text: str = "", message: str = "no more memory") -> Failure:
    """Build the failure of a process that got no more memory."""
    return _failure(stage, Kind.OUT_OF_MEMORY, "no more memory", message, text)


def fatal_signal(stage: Stage, name: str, text: str = "") -> Failure:
    """Build the failure of a process that died of a signal, `SIGSEGV` for example."""
    return _failure(stage, Kind.SIGNAL, name, name, text)


def exit_status(stage: Stage, status: int | None, text: str = "") -> Failure:
    """Build the failure of a process that ended with this status."""
    return _failure(stage, Kind.EXIT, f"exit status {status}", f"exit status {status}", text)


def _failure(stage: Stage, kind: Kind, identity: str, message: str, text: str) -> Failure:
    return Failure(Fingerprint(stage, kind, message=identity), kind.value, message, text)


_RANKS = {aspect: rank for rank, aspect in enumerate(Aspect)}
# Of one result, `assert_close` names the first of these before any other aspect.
_SHOWN_FIRST = (Aspect.STRUCTURE, Aspect.SHAPE, Aspect.DEVICE, Aspect.DTYPE)


def failure_of_differences(differences: Sequence[Difference], sought: Fingerprint | None = None) -> Failure:
    """Return the failure of the sought aspect, else of the worst aspect of the worst result.

    Forward results come before gradients. The aspects alone identify the failure: size and place of an error vary
    between candidates. The differences of the failure's result come first, as an assertion names them. The message is
    about the failure's aspect, and about the one that an assertion names first.
    """
    results = list(dict.fromkeys(difference.where for difference in differences))
    worst = {where: min(_RANKS[d.aspect] for d in differences if d.where == where) for where in results}
    ranked = sorted(
        differences, key=lambda d: (d.is_of_backward, worst[d.where], results.index(d.where), _RANKS[d.aspect])
    )
    main = next((d for d in ranked if sought is not None and d.aspect.value == sought.message), ranked[0])
    ordered = sorted(ranked, key=lambda d: (d.where != main.where, _place(d.aspect), d is not main))
    kind = Kind.NON_FINITE if main.aspect is Aspect.NON_FINITE else Kind.WRONG_RESULT
    text = "".join(f"{difference.sentence}\n" for difference in ordered)
    aspects = tuple(dict.fromkeys(difference.aspect.value for difference in ordered))
    fingerprint = Fingerprint(Stage.COMPARE, kind, message=main.aspect.value, aspects=aspects)
    message = "; ".join(dict.fromkeys((main.sentence, ordered[0].sentence)))
    return Failure(fingerprint, kind.value, message, text, differences=tuple(ordered))


def rank_of(failure: Failure) -> int:
    """Return the rank of a failure among wrong results: less is worse, and any other failure has less."""
    return _RANKS[Aspect(failure.fingerprint.message)] if failure.fingerprint.stage is Stage.COMPARE else -1


def _place(aspect: Aspect) -> int:
    """Return the place of an aspect in the order in which `assert_close` names them."""
    return _SHOWN_FIRST.index(aspect) if aspect in _SHOWN_FIRST else len(_SHOWN_FIRST)
