"""The outcome of a script's run: its failing backend calls, and facts about its other calls."""

from __future__ import annotations

from dataclasses import dataclass

from minifier.case import BackendReference
from minifier.failure import Failure, Stage
from minifier.process.forked_step import StepEnd


@dataclass(frozen=True, slots=True)
class FailingGraph:
    """A backend call that failed: its number among the script's graphs, and the failure in a sentence.

    unsaved: why the Case could not be saved; else empty.
    inputs_lost: why the Case lacks the call's original inputs, so that the script must run again; else empty.
    call: counts the compiled function's calls from 1; 0 while compiling.
    forward: for a backward graph, the number of its forward graph.
    """

    number: int
    sentence: str
    traceback: str
    ops: int | None
    backend: str
    stage: Stage
    call: int = 0
    unsaved: str = ""
    failure: Failure | None = None
    reference: BackendReference | None = None
    inputs_lost: str = ""
    forward: int | None = None


@dataclass(frozen=True, slots=True)
class FellBack:
    """A backend call that caught its own exception or did not compile the graph itself, as `sentence` describes.

    `is_whole`: inductor or eager got the whole graph. `line` is the backend's log line about the fallback, or "".
    """

    graph: int
    sentence: str
    is_whole: bool
    line: str


@dataclass(frozen=True, slots=True)
class Captured:
    """The outcome of a run of the script.

    graphs: how many graphs the backend got.
    repeated: failures with the sentence and op count of an earlier failure.
    environment: torch's variables that the script itself set; torch, imported before the script, ignored these.
    logged: distinct log lines of level WARNING and above from backend calls.
    slowest: seconds of the longest backend call that returned.
    forwards: numbers of Dynamo's graphs, in order.
    trains: the script ran a backward pass.
    trained: graphs that a backward pass reached, as positions in `forwards` from 1.
    calls: (position in `forwards` from 1, how often that graph was called).
    compared: (graph, call, with gradients) for each call that agreed with eager.
    excused: (graph, call, sentence) for large differences that eager's own variation excuses.
    fallbacks: backend calls that caught an exception, or left the graph to inductor or eager.
    not_compared: (graph, reason).
    lost: position in `forwards` from 1 of the graph in whose comparison the process died or was killed.
    failure: how the script failed outside of its backend calls, by an exception, a status or a signal.
    """

    end: StepEnd
    graphs: int
    failing: tuple[FailingGraph, ...]
    seconds: float
    repeated: tuple[FailingGraph, ...] = ()
    error: str = ""
    traceback: str = ""
    script_status: int | None = None
    backends: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    logged: tuple[str, ...] = ()
    slowest: float = 0.0
    trains: bool = False
    forwards: tuple[int, ...] = ()
    trained: frozenset[int] = frozenset()
    calls: tuple[tuple[int, int], ...] = ()
    compared: tuple[tuple[int, int, bool], ...] = ()
    excused: tuple[tuple[int, int, str], ...] = ()
    fallbacks: tuple[FellBack, ...] = ()
    not_compared: tuple[tuple[int, str], ...] = ()
    lost: int | None = None
    failure: Failure | None = None


def is_of_torch(error: str, trace: str) -> bool:
    """Whether torch.compile itself raised the error, not the script or one of its libraries."""
    if "InvalidBackend" in error:  # an unregistered backend name
        return False
    if error.startswith(("torch._dynamo.exc.", "torch._inductor.exc.", "torch._functorch.")):
        return True
    raised, _, _ = trace.partition("\nfrom user code:")  # where Dynamo lists frames of the user's
    files = [line for line in raised.splitlines() if line.lstrip().startswith('File "')]
    last = files[-1] if files else ""
    return any(
        folder in last for folder in ("/torch/_dynamo/", "/torch/_inductor/", "/torch/_functorch/", "/torch/fx/")
    )
